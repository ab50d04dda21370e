internal import Foundation
internal import FoundationNetworking

extension OriginalLoader {
    /// Looks at what a request asks for: whether it is allowed, and what it is called.
    func source(of request: ImageRequest) async throws(Error) -> Source {
        try configuration.urlPolicy.check(request.url)
        switch request.url.scheme?.lowercased() {
        case "file":
            let path = request.url.path(percentEncoded: false)
            let host = request.url.host() ?? ""
            guard host.isEmpty || host == "localhost" else {
                throw Error(.invalidURL, "file://\(host)/… names another host; a file: URL looks like file:///path.")
            }
            let file = try await onFileThread {
                [access = configuration.fileAccess] () throws(Error) in try access.file(at: path)
            }
            return Source(
                place: .file(file),
                key: .original(of: request, revision: "\(file.size) \(file.modified)"),
                description: path
            )
        case "data":
            return Source(
                place: .inline(try DataURL.decode(request.url)),
                key: .original(of: request),
                description: "a data: URL"
            )
        default:
            var urlRequest = URLRequest(url: request.url)
            for (name, value) in request.headers { urlRequest.setValue(value, forHTTPHeaderField: name) }
            return Source(
                place: .remote(urlRequest),
                key: .original(of: request),
                description: request.url.absoluteString
            )
        }
    }
}
