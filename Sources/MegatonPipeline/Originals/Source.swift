internal import Foundation
internal import FoundationNetworking

/// A request whose source has been resolved: where its bytes come from, and their cache key.
struct Source: Sendable, CustomStringConvertible {
    /// Location of the bytes.
    enum Location: Sendable {
        case remote(URLRequest)
        case file(FileAccess.File)
        case inline(Data)
        case closure(@Sendable () async throws -> Data)
    }

    let location: Location
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
        location: Location,
        key: CacheKey,
        description: String,
        request: ImageRequest,
        flights: any SingleFlightCoordinating
    ) {
        self.location = location
        self.key = key
        self.description = description
        self.request = request
        self.flights = flights
        if case .remote = location { sharedKey = .sharedOriginal(of: request) } else { sharedKey = nil }
    }

    /// Header fields that are sent to the origin.
    var sentFields: [String: String] {
        if case .remote(let request) = location { request.allHTTPHeaderFields ?? [:] } else { [:] }
    }

    /// Cache directives of the request.
    var cachePolicy: RequestCachePolicy {
        if case .remote(let request) = location { RequestCachePolicy(request) } else { .default }
    }

    /// Whether the bytes may be cached. Local bytes are not.
    var isCacheable: Bool {
        switch location {
        case .remote, .closure: true
        case .file, .inline: false
        }
    }
}

/// Delegate methods that take part in a load from an origin.
struct LoadHooks: Sendable {
    let dataLoader: @Sendable () -> any DataLoading
    /// Last change to the request before it is sent.
    let willLoadData: @Sendable (URLRequest) async throws -> URLRequest
    /// Bytes to store in place of a fetched original; nil stores nothing.
    let willCache: @Sendable (Data) async -> Data?
}
