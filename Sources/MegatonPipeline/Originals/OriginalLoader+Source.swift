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
    /// Works on bytes: such a URL may have many megabytes, and Swift's characters cost a hundred times as much.
    ///
    /// - Throws: `.invalidURL`.
    static func decode(_ url: URL) throws(ImageError) -> Data {
        // An array, as each byte of a `Data` costs a call of its iterator.
        let text = Array(url.absoluteString.utf8)
        guard let comma = text.firstIndex(of: UInt8(ascii: ",")) else {
            throw ImageError(.invalidURL, "A data: URL needs a comma before its data.")
        }
        var body = text[(comma + 1)...]
        if body.contains(UInt8(ascii: "%")) {
            guard let plain = String(decoding: body, as: UTF8.self).removingPercentEncoding else {
                throw ImageError(.invalidURL, "The percent-encoding of a data: URL is invalid.")
            }
            body = Array(plain.utf8)[...]
        }
        let head = text[..<comma].dropFirst("data:".utf8.count)
        guard String(decoding: head.suffix(7), as: UTF8.self).lowercased() == ";base64" else { return Data(body) }
        if body.contains(where: isWhitespace) { body.removeAll(where: isWhitespace) }
        // Strict (RFC 4648 section 3.3): invalid base64 is an error, and must not look like an empty image.
        guard let data = Data(base64Encoded: Data(body)) else {
            throw ImageError(.invalidURL, "The base64 of a data: URL is invalid.")
        }
        return data
    }

    /// ASCII white space, as in WHATWG's forgiving base64.
    private static func isWhitespace(_ byte: UInt8) -> Bool { byte == 32 || (9...13).contains(byte) }
}
