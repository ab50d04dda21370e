// libheif copies the bytes of all items while it reads the header, including items that are never shown.
extension HEIFFile {
    /// Bytes that stay in memory beside the image: Exif, XMP and similar metadata, and profiles.
    ///
    /// - Throws: `.headerTooLarge` if more bytes would be copied than `HEIFBounds` allows.
    func checkCopies() throws(ImageError) -> Int {
        let limit = max(HEIFBounds.leastCopies, HEIFBounds.copies * bytes.count)
        var (copied, kept) = (0, 0)
        var descriptions: [Int: Int] = [:]
        for reference in references where reference.type == "cdsc" {
            descriptions[reference.from, default: 0] += 1
        }
        for id in order {
            guard let item = items[id] else { continue }
            // No sum overflows: there are at most 8,192 extents, none longer than the file.
            guard item.size <= bytes.count else {
                throw Self.tooMany("an item (\(id)) of \(item.size) bytes in a file of \(bytes.count)")
            }
            let size = item.isDeflated ? item.size * HEIFBounds.inflation : item.size
            copied += size + (item.isCoded ? configurationSize(item) : 0)
            // libvips makes one more copy for each reference.
            kept += size * descriptions[id, default: 0]
        }
        if copied > limit {
            throw Self.tooMany(
                "items that share bytes or are compressed, so that \(copied) would be copied from a file of "
                    + "\(bytes.count); the limit is \(limit)"
            )
        }
        for property in properties where property.type == "colr" { kept += property.content.count }
        if kept > HEIFBounds.metadata {
            throw Self.tooMany(
                "Exif, XMP and profiles that would take \(kept) bytes; the limit is \(HEIFBounds.metadata)"
            )
        }
        return kept
    }

    private func configurationSize(_ item: Item) -> Int {
        configuration(of: item).map { $0.content.count * 2 } ?? 0
    }

    /// The first `av1C` or `hvcC` of an item, which libheif prepends to its bytes.
    func configuration(of item: Item) -> Box? {
        let type: FourCC = item.type == "av01" ? "av1C" : "hvcC"
        return item.properties.lazy.map { properties[$0] }.first { $0.type == type }
    }

    /// Calls the closure with the bytes of an item as one contiguous buffer.
    func withData<Value>(
        of item: Item,
        _ body: (UnsafeRawBufferPointer) throws(ImageError) -> Value
    ) throws(ImageError) -> Value {
        if let obstacle = item.obstacle { throw Self.damage("item \(item.id) cannot be read: \(obstacle).") }
        if item.extents.count == 1 {
            return try body(UnsafeRawBufferPointer(rebasing: bytes[item.extents[0]]))
        }
        var joined: [UInt8] = []
        joined.reserveCapacity(item.size)
        for extent in item.extents { joined += bytes[extent] }
        let result: Result<Value, ImageError> = joined.withUnsafeBytes { buffer in
            do throws(ImageError) { return .success(try body(buffer)) } catch { return .failure(error) }
        }
        return try result.get()
    }
}
