internal import Foundation
internal import FoundationNetworking

extension OriginalLoader {
    /// Resolves a request: checks whether its source is allowed, and determines its key.
    func source(of request: ImageRequest) async throws(Error) -> Source {
        do throws(Error) {
            return try await checkedSource(of: request)
        } catch {
            throw error.at(.load, of: request)
        }
    }

    private func checkedSource(of request: ImageRequest) async throws(Error) -> Source {
        if case .data(let id, let fetch) = request.resource {
            return Source(
                location: .closure(fetch),
                key: .original(of: request),
                description: id,
                request: request,
                flights: configuration.coordinator
            )
        }
        guard let url = request.url, var urlRequest = request.urlRequest else {
            throw Error(.invalidURL, "\(request) has no URL to load bytes from.")
        }
        try configuration.urlPolicy.check(url)
        switch url.scheme?.lowercased() {
        case "file":
            let path = url.path(percentEncoded: false)
            let host = url.host() ?? ""
            guard host.isEmpty || host == "localhost" else {
                throw Error(.invalidURL, "file://\(host)/… names another host; a file: URL looks like file:///path.")
            }
            guard !path.isEmpty || url.path(percentEncoded: true).isEmpty else {
                throw Error(
                    .invalidURL,
                    "\(url.path(percentEncoded: true)) is not UTF-8, so the file cannot be read by this name; rename "
                        + "it."
                )
            }
            let file = try await onFileThread {
                [access = configuration.fileAccess] () throws(Error) in try access.file(at: path)
            }
            return Source(
                location: .file(file),
                key: .original(of: request, revision: file.revision),
                description: path,
                request: request,
                flights: configuration.coordinator
            )
        case "data":
            return Source(
                location: .inline(try DataURL.decode(url)),
                key: .original(of: request),
                description: "a data: URL",
                request: request,
                flights: configuration.coordinator
            )
        default:
            for (name, value) in request.headers { urlRequest.setValue(value, forHTTPHeaderField: name) }
            return Source(
                location: .remote(urlRequest),
                key: .original(of: request),
                description: url.redacted,
                request: request,
                flights: configuration.coordinator
            )
        }
    }
}

/// Decodes `data:` URLs (RFC 2397).
enum DataURL {
    /// - Throws: `.invalidURL`.
    static func decode(_ url: URL) throws(ImageError) -> Data {
        let text = url.absoluteString.dropFirst("data:".count)
        guard let comma = text.firstIndex(of: ",") else {
            throw ImageError(.invalidURL, "A data: URL needs a comma before its data.")
        }
        let body = text[text.index(after: comma)...]
        guard let plain = String(body).removingPercentEncoding else {
            throw ImageError(.invalidURL, "The percent-encoding of a data: URL is invalid.")
        }
        guard text[..<comma].lowercased().hasSuffix(";base64") else { return Data(plain.utf8) }
        // Strict (RFC 4648 section 3.3): invalid base64 is an error, and must not look like an empty image.
        guard let data = Data(base64Encoded: plain.filter { !$0.isWhitespace }) else {
            throw ImageError(.invalidURL, "The base64 of a data: URL is invalid.")
        }
        return data
    }
}
