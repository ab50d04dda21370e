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
    var flights: any SingleFlightCoordinating
    /// The delegate's hooks for the load; nil without a delegate.
    var hooks: LoadHooks?

    init(
        place: Place,
        key: CacheKey,
        description: String,
        request: ImageRequest,
        flights: any SingleFlightCoordinating
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
