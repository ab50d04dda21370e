internal import Foundation
internal import FoundationNetworking

extension ImageRequest {
    /// How old a remembered failure may be that answers the request: as it says itself and by its header fields.
    var failureAge: Duration? {
        [maximumFailureAge, cachePolicy.maximumFailureAge].compactMap { $0 }.min().map { max(.zero, $0) }
    }

    /// What it wants of caches. Of sources that HTTP has no part in nothing is said: `options` steer their caches.
    var cachePolicy: RequestCachePolicy {
        let sets = headers.keys.contains { ["cache-control", "pragma"].contains($0.lowercased()) }
        switch resource {
        case .data, .image, .none: return .silent
        case .url where !sets: return .silent
        case .url, .urlRequest:
            guard !isLocal, var urlRequest else { return .silent }
            for (name, value) in headers { urlRequest.setValue(value, forHTTPHeaderField: name) }
            return RequestCachePolicy(urlRequest)
        }
    }
}
