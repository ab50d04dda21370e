package import Foundation

/// Formats of the blobs that caches of plain bytes store. Each begins with its own magic, so that none is taken for
/// another.
package enum BlobFormat: String, CaseIterable, Sendable {
    /// An entry of a data cache: metadata and data (`CachedData`).
    case cachedData = "M1"
    /// A response of a loader: its status and header fields, and the body (`StoredResponse`).
    case response = "L1"
    /// The first part of a body whose download was interrupted, and what its rest needs (`ResumableData`).
    case partialDownload = "P1"
    /// A near-cache copy of a shared entry: two times and a `cachedData` blob (`NearCacheEntry`). It was `L1` before
    /// 0.2.0, as a response is.
    case nearCacheEntry = "N1"
    /// A file of the disk cache: length, checksum and data (`DataCacheBlob`).
    case diskFile = "MDC1"

    package var magic: Data { Data(rawValue.utf8) }

    /// A blob with a header: the magic, the header's length (4 bytes, little endian), the header as JSON, the body.
    package func encode(_ header: some Encodable, _ body: Data) throws -> Data {
        let json = try JSONEncoder().encode(header)
        var blob = Data(capacity: rawValue.utf8.count + 4 + json.count + body.count)
        blob.append(magic)
        blob.append(littleEndian: UInt32(json.count))
        blob.append(json)
        blob.append(body)
        return blob
    }

    /// The header of a blob and its body, which is a slice; nil if the blob has another format, is cut short, or if the
    /// header is damaged or of another version.
    package func decode<Header: Decodable>(
        _ header: Header.Type = Header.self,
        from blob: Data
    ) -> (header: Header, body: Data)? {
        let start = rawValue.utf8.count
        guard blob.starts(with: magic), let length = blob.littleEndian(UInt32.self, at: start),
            blob.count - start - 4 >= Int(length)
        else { return nil }
        let rest = blob.dropFirst(start + 4)
        let json = Data(rest.prefix(Int(length)))
        guard let header = try? JSONDecoder().decode(header, from: json) else { return nil }
        return (header, rest.dropFirst(Int(length)))
    }
}

extension Data {
    package mutating func append(littleEndian number: some FixedWidthInteger) {
        Swift.withUnsafeBytes(of: number.littleEndian) { append(contentsOf: $0) }
    }

    /// Reads an integer.
    ///
    /// - Parameter offset: from the start of the data, which may be a slice.
    /// - Returns: nil if the data ends before it.
    package func littleEndian<Number: FixedWidthInteger & BitwiseCopyable>(_: Number.Type, at offset: Int) -> Number? {
        guard offset >= 0, count - offset >= MemoryLayout<Number>.size else { return nil }
        return withUnsafeBytes { Number(littleEndian: $0.loadUnaligned(fromByteOffset: offset, as: Number.self)) }
    }
}
