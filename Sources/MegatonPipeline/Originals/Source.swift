internal import Foundation
internal import FoundationNetworking

/// A request whose source has been resolved: where its bytes come from, and their cache key.
struct Source: Sendable, CustomStringConvertible {
    /// Location of the bytes.
    enum Place: Sendable {
        case remote(URLRequest)
        case file(FileAccess.File)
        case inline(Data)
        case closure(@Sendable () async throws -> Data)
    }

    let place: Place
    /// Key of the original.
    let key: CacheKey
    /// Key of an original that requests with other header fields may share: see `CacheKey.sharedOriginal`. Nil if it
    /// equals `key`.
    let sharedKey: CacheKey?
    /// Text for messages.
    let description: String
    let request: ImageRequest
    /// Coordinator with the cache of the bytes: the configuration's, unless a delegate has another cache for the
    /// request.
    var flights: any FlightCoordinating
    /// The delegate's hooks for the load; nil without a delegate.
    var hooks: LoadHooks?

    init(
        place: Place,
        key: CacheKey,
        description: String,
        request: ImageRequest,
        flights: any FlightCoordinating
    ) {
        self.place = place
        self.key = key
        self.description = description
        self.request = request
        self.flights = flights
        if case .remote = place { sharedKey = .sharedOriginal(of: request) } else { sharedKey = nil }
    }

    /// Header fields that are sent to the origin.
    var sentFields: [String: String] {
        if case .remote(let request) = place { request.allHTTPHeaderFields ?? [:] } else { [:] }
    }

    /// Cache directives of the request.
    var cachePolicy: RequestCachePolicy {
        if case .remote(let request) = place { RequestCachePolicy(request) } else { .silent }
    }

    /// Whether the bytes may be cached. Local bytes are not.
    var isKept: Bool {
        switch place {
        case .remote, .closure: true
        case .file, .inline: false
        }
    }
}

extension RenditionResponse {
    init(_ rendition: Rendition, _ image: EncodedImage) {
        self.init(
            rendition: rendition,
            data: image.data,
            size: image.size,
            source: .render,
            checksum: nil,
            cacheLayer: nil,
            notes: image.notes
        )
    }

    init(_ rendition: Rendition, _ cached: CachedData) {
        let size = PixelSize(width: cached.metadata.width ?? 0, height: cached.metadata.height ?? 0)
        self.init(
            rendition: rendition,
            data: cached.data,
            size: size,
            source: .cache,
            checksum: cached.checksum,
            cacheLayer: cached.layer,
            notes: RenderNotes.merged([], cached.metadata.notes ?? [])
        )
    }

    /// The same rendition for a request that did not make it.
    func fromCache() -> RenditionResponse {
        with(rendition, .cache)
    }

    /// The same response for the rendition as it was requested.
    func named(_ rendition: Rendition) -> RenditionResponse {
        with(rendition, source)
    }

    private func with(_ rendition: Rendition, _ source: Source) -> RenditionResponse {
        RenditionResponse(
            rendition: rendition,
            data: data,
            size: size,
            source: source,
            checksum: checksum,
            cacheLayer: cacheLayer,
            notes: notes
        )
    }
}

extension HTTPURLResponse {
    /// Header fields by lower-case name.
    var lowercasedHeaders: [String: String] {
        var headers: [String: String] = [:]
        for (name, value) in allHeaderFields {
            if let name = name as? String, let value = value as? String { headers[name.lowercased()] = value }
        }
        return headers
    }

    /// Content encoding of the body, truncated to 64 characters; nil if there is none.
    var bodyEncoding: String? {
        let codings = HTTPFieldList.elements(lowercasedHeaders["content-encoding"] ?? "")
            .filter { $0.lowercased() != "identity" }
        return codings.isEmpty ? nil : String(codings.joined(separator: ", ").prefix(64))
    }

    /// Media type that the origin declared, truncated to the length of the longest valid type.
    var mediaType: String? { lowercasedHeaders["content-type"].map { String($0.prefix(HTTPStatusError.maximumType)) } }
}

extension Array where Element: Hashable {
    /// The elements without duplicates, in the order of their first occurrence.
    func uniqued() -> [Element] {
        var seen: Set<Element> = []
        return filter { seen.insert($0).inserted }
    }
}
