extension CachedData.Metadata {
    /// What is known of an origin's answer.
    ///
    /// - Parameter headers: names in lower case.
    /// - Returns: nil where it must not be kept.
    init?(headers: [String: String]) {
        let freshness = HTTPFreshness(headers: headers)
        guard let lifetime = freshness.lifetime else { return nil }
        self.init(
            type: headers["content-type"],
            etag: headers["etag"],
            lastModified: headers["last-modified"],
            lifetime: lifetime,
            staleWhileRevalidate: freshness.staleWhileRevalidate,
            staleIfError: freshness.staleIfError
        )
    }

    /// What is known after a 304: its header fields replace those of the stored answer (RFC 9111 sections 3.2 and 4.3.4).
    ///
    /// - Parameter headers: names in lower case.
    /// - Returns: nil where the entry must no longer be kept.
    func refreshed(by headers: [String: String]) -> Self? {
        var headers = headers
        headers["etag"] = headers["etag"] ?? etag
        headers["last-modified"] = headers["last-modified"] ?? lastModified
        // The bytes are the stored ones, and so is their type: some origins label the 304 itself.
        headers["content-type"] = type
        guard var refreshed = Self(headers: headers) else { return nil }
        if headers["cache-control"] == nil {
            refreshed.lifetime = lifetime
            refreshed.staleWhileRevalidate = staleWhileRevalidate
            refreshed.staleIfError = staleIfError
        }
        return refreshed
    }

    /// What holds for that which is made of the entry now that it is stale: it is stale too, and served no longer.
    func aged(by staleness: Double) -> Self {
        var aged = self
        aged.lifetime = 0
        aged.staleWhileRevalidate = staleWhileRevalidate.map { max(0, $0 - staleness) }
        aged.staleIfError = staleIfError.map { max(0, $0 - staleness) }
        return aged
    }
}

extension CachedData {
    /// A rendition that has just been made.
    init(_ image: EncodedImage, _ format: Rendition.Format, of original: Metadata) {
        var metadata = original
        metadata.type = format.mediaType
        metadata.width = image.size.width
        metadata.height = image.size.height
        self.init(data: image.data, metadata: metadata)
    }

    /// The same rendition, with what holds for its original now.
    func prolonged(by original: Metadata) -> CachedData {
        var metadata = original
        metadata.type = self.metadata.type
        metadata.width = self.metadata.width
        metadata.height = self.metadata.height
        return CachedData(data: data, metadata: metadata, checksum: checksum)
    }
}
