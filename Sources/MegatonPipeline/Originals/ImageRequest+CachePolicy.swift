package import Foundation
internal import FoundationNetworking

extension ImageRequest {
    /// Maximum age of a remembered failure that may answer the request, by its own property and its header fields.
    var failureAge: Duration? {
        [maximumFailureAge, cachePolicy.maximumFailureAge].compactMap { $0 }.min().map { max(.zero, $0) }
    }

    /// Whether an entry that the request waited for may answer it, although its cache directives demand another.
    func isNewEnough(_ entry: CachedData?) -> Bool {
        guard let validatedSince, let entry else { return true }
        return entry.metadata.fetched.map { $0 >= validatedSince.timeIntervalSince1970 } ?? false
    }

    /// Makes the origin confirm entries of any age, or replace them. Local sources are not cached by age, and stay as
    /// they are.
    package mutating func refresh(at now: Date = Date()) {
        guard !isLocal, var urlRequest else { return }
        urlRequest.cachePolicy = .reloadRevalidatingCacheData
        resource = .urlRequest(urlRequest)
        validatedSince = now
    }

    /// Header fields of the request as sent to the origin.
    var sentFields: [String: String] {
        switch resource {
        case .data, .image, .none, .url: return headers
        case .urlRequest(let request):
            // `setValue` ignores the case of names.
            var request = request
            for (name, value) in headers { request.setValue(value, forHTTPHeaderField: name) }
            return request.allHTTPHeaderFields ?? [:]
        }
    }

    /// Cache directives of the request. None for sources without HTTP: `options` control their caches.
    var cachePolicy: RequestCachePolicy {
        let sets = headers.keys.contains {
            let name = $0.lowercased()
            return ["cache-control", "pragma"].contains(name) || URLRequest.exclusiveFields.contains(name)
        }
        switch resource {
        case .data, .image, .none: return .default
        case .url where !sets: return .default
        case .url, .urlRequest:
            guard !isLocal, var urlRequest else { return .default }
            for (name, value) in headers { urlRequest.setValue(value, forHTTPHeaderField: name) }
            return RequestCachePolicy(urlRequest)
        }
    }
}
