internal import Foundation
internal import FoundationNetworking

/// A request whose source has been looked at: where its bytes are, and what they are called.
struct Source: Sendable, CustomStringConvertible {
    /// Where the bytes come from.
    enum Place: Sendable {
        case remote(URLRequest)
        case file(FileAccess.File)
        case inline(Data)
        case closure(@Sendable () async throws -> Data)
    }

    let place: Place
    /// Of the original.
    let key: CacheKey
    /// Of an original that others may share whose header fields differ: see `CacheKey.sharedOriginal`. Nil if that is
    /// `key`.
    let sharedKey: CacheKey?
    /// For messages.
    let description: String
    let request: ImageRequest
    /// Where it is kept: the configuration's, unless a delegate has another cache for it.
    var flights: any FlightCoordinating
    /// What a delegate has to say about the load; nil without one.
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

    /// Header fields of the request to the origin.
    var sentFields: [String: String] {
        if case .remote(let request) = place { request.allHTTPHeaderFields ?? [:] } else { [:] }
    }

    /// What the request wants of caches.
    var cachePolicy: RequestCachePolicy {
        if case .remote(let request) = place { RequestCachePolicy(request) } else { .silent }
    }

    /// Whether it may be in a cache: what is at hand anyway is not put there.
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

    /// The same picture for somebody who did not make it.
    func fromCache() -> RenditionResponse {
        with(rendition, .cache)
    }

    /// The same picture under the name that it was asked for by.
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
    /// Header fields by their name in lower case.
    var lowercasedHeaders: [String: String] {
        var headers: [String: String] = [:]
        for (name, value) in allHeaderFields {
            if let name = name as? String, let value = value as? String { headers[name.lowercased()] = value }
        }
        return headers
    }

    /// The body's encoding, cut off where it is longer than any; nil of a body that has none.
    var bodyEncoding: String? {
        let codings = HTTPFieldList.elements(lowercasedHeaders["content-encoding"] ?? "")
            .filter { $0.lowercased() != "identity" }
        return codings.isEmpty ? nil : String(codings.joined(separator: ", ").prefix(64))
    }

    /// What the origin calls the body; cut off where it is longer than any media type.
    var mediaType: String? { lowercasedHeaders["content-type"].map { String($0.prefix(HTTPStatusError.maximumType)) } }
}

extension Array where Element: Hashable {
    /// Each element once, in the order of its first place.
    func uniqued() -> [Element] {
        var seen: Set<Element> = []
        return filter { seen.insert($0).inserted }
    }
}
