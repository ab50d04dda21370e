internal import Foundation
internal import FoundationNetworking

// After a request that may have changed the resource at its URL, stored responses for that URL are discarded, and so
// are those for URLs of the same origin that the response names (RFC 9111 section 4.4).
extension OriginalLoader {
    /// - Parameter response: of a successful request. The loader throws for statuses from 400 on, which invalidate
    ///   nothing.
    func invalidate(after response: URLResponse?, _ source: Source) async {
        guard let url = source.request.url else { return }
        var keys: [CacheKey] = []
        for target in Self.targets(of: url, response as? HTTPURLResponse) {
            for scope in Set([source.request.credentialScope, nil]) {
                var request = ImageRequest(url: target)
                request.credentialScope = scope
                // Entries of requests without header fields of their own, and of requests with these.
                for headers in Set([source.sentFields, [:]]) {
                    request.headers = headers
                    keys += [.original(of: request), .image(of: request)]
                    if let shared = CacheKey.sharedOriginal(of: request) { keys.append(shared) }
                    configuration.imageCache?[ImageCacheKey(request: request)] = nil
                }
            }
        }
        if let name = source.request.originalName ?? source.request.imageID, name != url.absoluteString {
            var request = ImageRequest(url: url)
            request.imageID = name
            request.credentialScope = source.request.credentialScope
            keys += [.original(of: request), .image(of: request)]
        }
        for key in keys.uniqued() { await source.flights.discard(key) }
    }

    /// The requested URL, and URLs of the same origin that the response names or came from. At most four.
    private static func targets(of url: URL, _ response: HTTPURLResponse?) -> Set<URL> {
        var targets: Set<URL> = [url]
        guard let own = URLParts(url), let response else { return targets }
        let headers = response.lowercasedHeaders
        let named = ["location", "content-location"].compactMap { headers[$0] }
            .compactMap { URL(string: Redirects.escaped($0), relativeTo: response.url ?? url)?.absoluteURL }
        for other in named + [response.url].compactMap({ $0 }) {
            if let parts = URLParts(other), parts.isSameOrigin(as: own) { targets.insert(other) }
        }
        return targets
    }
}
