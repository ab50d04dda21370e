internal import Foundation
internal import FoundationNetworking

extension ImageRequest {
    /// How old a remembered failure may be that answers the request: as it says itself and by its header fields.
    var failureAge: Duration? {
        [maximumFailureAge, cachePolicy.maximumFailureAge].compactMap { $0 }.min().map { max(.zero, $0) }
    }

    /// Header fields of the request to the origin.
    var sentFields: [String: String] {
        switch resource {
        case .data, .image, .none, .url: return headers
        case .urlRequest(let request):
            // By name, whatever its case.
            var request = request
            for (name, value) in headers { request.setValue(value, forHTTPHeaderField: name) }
            return request.allHTTPHeaderFields ?? [:]
        }
    }

    /// What it wants of caches. Of sources that HTTP has no part in nothing is said: `options` steer their caches.
    var cachePolicy: RequestCachePolicy {
        let sets = headers.keys.contains {
            let name = $0.lowercased()
            return ["cache-control", "pragma"].contains(name) || URLRequest.exclusiveFields.contains(name)
        }
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
