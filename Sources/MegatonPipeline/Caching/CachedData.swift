public import Foundation

/// Bytes with what must be known about them when they come out of a cache again.
public struct CachedData: Sendable, Equatable {
    /// What travels with the bytes.
    public struct Metadata: Sendable, Equatable, Codable {
        /// The media type.
        public var type: String?
        /// Of a rendition: of the original that it was made from.
        public var etag: String?
        /// Of a rendition: of the original that it was made from.
        public var lastModified: String?
        /// Pixels, of a rendition.
        public var width: Int?
        /// Pixels, of a rendition.
        public var height: Int?
        /// Seconds since 1970 by the clock of whoever stored it; for people.
        public var stored: Double?
        /// Seconds for which the entry may be used without asking the origin.
        public var lifetime: Double
        /// Seconds after that for which it may be served while the origin is asked (RFC 5861 section 3).
        public var staleWhileRevalidate: Double?
        /// Seconds after the lifetime for which it may be served where the origin fails (RFC 5861 section 4).
        public var staleIfError: Double?
        /// The origin's status; nil in entries that were stored without it.
        public var status: Int?
        /// Seconds: how old the answer was already when it was stored (RFC 9111 section 4.2.3).
        public var age: Double?
        /// What the request sent of the fields that the answer varies by (RFC 9111 section 4.1), by their names in
        /// lower case: hex SHA-256, or empty where it did not send them. Nil where the answer does not vary.
        public var vary: [String: String]?
        /// Of an original that varies: a random name of those variants that may be used beside it. A new one begins if
        /// the entry that names the varying fields was forgotten, so that no older variant is found (RFC 9111 section
        /// 4.4).
        package var generation: String?
        /// Header fields of the answer that are of use later, by their names in lower case; the type and the validators
        /// have their own places. Nil where they were too long, and in entries that were stored without them.
        public var headers: [String: String]?
        /// Of a rendition: see ``RenditionResponse/notes``. Nil where there are none.
        public var notes: [String]?

        public init(
            type: String? = nil,
            etag: String? = nil,
            lastModified: String? = nil,
            width: Int? = nil,
            height: Int? = nil,
            stored: Double? = nil,
            lifetime: Double,
            staleWhileRevalidate: Double? = nil,
            staleIfError: Double? = nil
        ) {
            self.type = type
            self.etag = etag
            self.lastModified = lastModified
            self.width = width
            self.height = height
            self.stored = stored
            self.lifetime = lifetime
            self.staleWhileRevalidate = staleWhileRevalidate
            self.staleIfError = staleIfError
        }
    }

    /// The bytes.
    public var data: Data
    public var metadata: Metadata
    /// What the cache that gave the data has just verified it by, hex: of a rendition its SHA-256, of an original what that
    /// cache uses. Nil where it has not.
    public var checksum: String?
    /// Seconds since it ceased to be fresh, as told by the cache that gave it; nil where it is fresh.
    public var staleness: Double?
    /// Which cache gave it, by its ``DataCaching/layerName``; nil where it does not come from one that tells.
    public var layer: String?

    public init(data: Data, metadata: Metadata, checksum: String? = nil, staleness: Double? = nil) {
        self.data = data
        self.metadata = metadata
        self.checksum = checksum
        self.staleness = staleness
    }

    /// Whether it may be served while the origin is asked.
    public var mayServeWhileRevalidating: Bool { isWithin(metadata.staleWhileRevalidate) }

    /// Whether it may be served in the place of this error.
    public func mayServe(after error: ImagePipeline.Error) -> Bool {
        error.isOriginFailure && isWithin(metadata.staleIfError)
    }

    private func isWithin(_ window: Double?) -> Bool {
        guard let staleness else { return true }
        return staleness < window ?? 0
    }
}

extension CachedData.Metadata {
    /// Whether the bytes are an image that was encoded here, and not those that an origin has sent: only of the first the
    /// size is noted.
    var isOfEncodedImage: Bool { width != nil }
}

extension CachedData {
    /// One blob for caches that know nothing but bytes: `M1`, the metadata's length (4 bytes, little endian), the
    /// metadata as JSON, the data.
    func encoded() throws -> Data {
        let json = try JSONEncoder().encode(metadata)
        var blob = Data("M1".utf8)
        withUnsafeBytes(of: UInt32(json.count).littleEndian) { blob.append(contentsOf: $0) }
        blob.append(json)
        blob.append(data)
        return blob
    }

    /// Nil where the blob is not one of ours, or cut short: a miss.
    init?(encoded blob: Data) {
        let bytes = blob.prefix(6)
        guard bytes.count == 6, bytes.starts(with: Data("M1".utf8)) else { return nil }
        let length = bytes.dropFirst(2).enumerated().reduce(0) { $0 | Int($1.element) << (8 * $1.offset) }
        guard blob.count >= 6 + length else { return nil }
        let json = blob.dropFirst(6).prefix(length)
        // Another version's, or damaged: a miss too.
        guard let metadata = try? JSONDecoder().decode(Metadata.self, from: Data(json)) else { return nil }
        self.init(data: blob.dropFirst(6 + length), metadata: metadata)
    }
}
