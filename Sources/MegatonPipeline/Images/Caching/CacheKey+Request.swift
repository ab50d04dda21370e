internal import Crypto
internal import Foundation
internal import FoundationNetworking

// Keys of the results of image requests.
extension CacheKey {
    /// The key of the response that a request fetches: method, body, name, credential scope and all header fields.
    ///
    /// - Parameter revision: the size and modification time of a local file, which has no validators. Defaults to the
    ///   revision in the request; pass a value if the file has just been checked.
    package static func original(of request: ImageRequest, revision: String? = nil) -> CacheKey {
        original(of: request, sending: VaryKey.lines(request.sentFields), revision: revision)
    }

    /// The key shared by requests that differ only in header fields by which the response does not vary (RFC 9111
    /// section 4.1). Fields that may identify the caller stay in the key all the same.
    ///
    /// - Returns: nil if `original(of:)` gives the same key, as for every request without header fields.
    static func sharedOriginal(of request: ImageRequest) -> CacheKey? {
        let fields = request.sentFields
        if fields.isEmpty || request.cachePolicy.isExclusive { return nil }
        let (lines, shared) = (VaryKey.lines(fields), VaryKey.lines(fields.filter { VaryKey.mayIdentify($0.key) }))
        return lines == shared ? nil : original(of: request, sending: shared)
    }

    private static func original(
        of request: ImageRequest,
        sending lines: [String],
        revision: String? = nil
    ) -> CacheKey {
        let revision = revision ?? request.revision ?? ""
        let urlRequest = request.urlRequest
        // A method contains no space, so that method and body cannot be confused.
        let body = urlRequest?.httpBody.map { " " + SHA256.hash(data: $0).hexDigits } ?? ""
        return CacheKey(
            .original,
            [
                (urlRequest?.httpMethod ?? "GET") + body, request.originalName ?? request.imageID ?? "",
                request.credentialScope ?? "", revision,
            ] + lines
        )
    }

    /// The key of a request's image. It is the original's key if the request changes nothing, so that the bytes have
    /// one key only.
    static func image(of request: ImageRequest) -> CacheKey {
        guard request.changesOriginal else { return original(of: request) }
        return CacheKey(
            .image,
            [original(of: request).digest, request.thumbnail?.identifier ?? ""] + request.processors.map(\.identifier)
        )
    }
}
