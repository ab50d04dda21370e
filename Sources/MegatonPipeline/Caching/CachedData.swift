package import Foundation

/// A cache entry: bytes, with the metadata that is needed to serve and revalidate them later.
package struct CachedData: Sendable, Equatable {
    /// Metadata stored with the bytes.
    package struct Metadata: Sendable, Equatable, Codable {
        /// The media type.
        package var type: String?
        /// The entity tag. A rendition has the one of its original.
        package var etag: String?
        /// The `Last-Modified` date. A rendition has the one of its original.
        package var lastModified: String?
        /// Pixels; only for encoded images such as renditions.
        package var width: Int?
        /// Pixels; only for encoded images such as renditions.
        package var height: Int?
        /// Seconds since 1970 when the entry was stored, by the clock of the process that stored it.
        package var stored: Double?
        /// Seconds for which the entry may be used without asking the origin.
        package var lifetime: Double
        /// Window after the lifetime, in seconds, for serving the entry while it is revalidated (RFC 5861 section 3).
        package var staleWhileRevalidate: Double?
        /// Window after the lifetime, in seconds, for serving the entry if the origin fails (RFC 5861 section 4).
        package var staleIfError: Double?
        /// The origin's status; nil in entries that were stored without it.
        package var status: Int?
        /// Age of the response in seconds when it was stored (RFC 9111 section 4.2.3).
        package var age: Double?
        /// The request header fields by which the response varies (RFC 9111 section 4.1). Keys are names in lowercase;
        /// values are the hex SHA-256 of the value that the request sent, or empty if it did not send the field. Nil if
        /// the response does not vary.
        package var vary: [String: String]?
        /// A random name shared by the variants of one original that may be used together. A new name is chosen if the
        /// entry that names the varying fields was lost, so that no older variant is found (RFC 9111 section 4.4).
        package var generation: String?
        /// Response header fields that are needed later, by their names in lowercase. The type and the validators have
        /// properties of their own. Nil if the fields were too long, and in entries that were stored without them.
        package var headers: [String: String]?
        /// Notes of a rendition, see ``RenditionResponse/notes``. Nil if there are none.
        package var notes: [String]?
        /// SSIMULACRA2 score of a rendition with a `targetScore`, see ``RenditionResponse/score``. Nil without one.
        package var score: Double?
        /// Packed facts about the source of a rendition, see ``RenditionResponse/facts``. Nil if there are none.
        package var facts: String?
        /// When the origin was asked for the response, or last asked to confirm it: seconds since 1970, by the clock of
        /// the process that asked. It is the version of an original, and a rendition has the one of its original. Nil
        /// if no origin was asked, and in entries that were stored without it.
        package var fetched: Double?
        /// URL of the original, without user, password, query and fragment, by which entries are found to be deleted.
        /// Nil if there is none, and in entries that were stored without it.
        package var source: String?
        /// Address that the original came from, if it is not public, or the store of an `s3:` URL, as `EntryOrigins`
        /// names it: processes that may not connect to it, or have another store, do not use the entry. Nil for public
        /// addresses, and in entries that were stored without it.
        package var address: String?
        /// Digest of the URL that sent the response after redirects, see `responder(of:to:)`: the validators are for
        /// that URL only (RFC 9111 section 4.3.1). Nil if it is the URL of the request, and in entries that were stored
        /// without it.
        package var responder: String?
        /// Name of a rendition in the request that made it; later requests may use another name. Nil for originals.
        package var rendition: String?

        package init(
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
    package var data: Data
    package var metadata: Metadata
    /// The checksum, in hex, by which the cache has just verified the data: SHA-256 for a rendition, the cache's own
    /// algorithm for an original. Nil if the cache did not verify it.
    package var checksum: String?
    /// Seconds since the entry ceased to be fresh, as reported by the cache that returned it; nil if it is fresh.
    package var staleness: Double?
    /// The ``DataCaching/layerName`` of the cache that returned the entry; nil if that is not known.
    package var layer: String?
    /// Whether a shared cache is to store the entry only if others are known to need it, or have needed it.
    package var isStoredIfReused = false
    /// Whether the data is only the beginning of an original, which no cache stores: it may remember the fetch.
    package var isPart = false

    package init(data: Data, metadata: Metadata, checksum: String? = nil, staleness: Double? = nil) {
        self.data = data
        self.metadata = metadata
        self.checksum = checksum
        self.staleness = staleness
    }

    /// Whether the entry may be served while it is revalidated.
    ///
    /// Several types decide on stale entries by this property and ``mayServe(after:)``: the coordinators
    /// `LocalSingleFlight` and `InFlightLock` (MegatonCluster) at a lookup, `RequestCachePolicy` and
    /// `OriginalLoader.answer` for the policy of a request, and `OriginalLoader` and `RenditionProducer` after an error
    /// of the origin.
    package var mayServeWhileRevalidating: Bool { isWithin(metadata.staleWhileRevalidate) }

    /// Whether the entry may be served instead of this error.
    package func mayServe(after error: ImageError) -> Bool { error.isOriginFailure && mayServeOnFailure }

    /// Whether the entry may be served while the origin cannot be asked: RFC 5861, section 4.
    package var mayServeOnFailure: Bool { isWithin(metadata.staleIfError) }

    private func isWithin(_ window: Double?) -> Bool {
        guard let staleness else { return true }
        return staleness < window ?? 0
    }
}

extension CachedData.Metadata {
    /// Whether the bytes are an image that Megaton encoded, not bytes received from an origin: only encoded images have
    /// a recorded size.
    var isOfEncodedImage: Bool { width != nil }
}

extension CachedData {
    /// One blob for caches that store only bytes.
    func encoded() throws -> Data { try BlobFormat.cachedData.encode(metadata, data) }

    /// Nil if the blob has another format, is cut short, damaged or of another version, which counts as a miss.
    init?(encoded blob: Data) {
        guard let (metadata, data) = BlobFormat.cachedData.decode(Metadata.self, from: blob) else { return nil }
        self.init(data: data, metadata: metadata)
    }
}
