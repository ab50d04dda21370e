internal import Crypto
internal import Foundation
internal import FoundationNetworking

/// Identifies an entry in the caches, and the flight that produces it.
///
/// A SHA-256 over length-prefixed fields, with a version in front. With the length prefixes two different lists of
/// fields cannot share a key, as they could if the strings were joined.
public struct CacheKey: Sendable, Hashable, CustomStringConvertible {
    /// The content of an entry.
    package enum Kind: String, Sendable {
        case original = "o"
        case rendition = "r"
        /// An image that was decoded and processed, in memory or encoded again.
        case image = "i"
        /// The first part of an original whose download was interrupted.
        case partial = "p"
    }

    package let kind: Kind
    /// 64 hex digits.
    package let digest: String

    /// Raise this when the same fields no longer mean the same image, e.g. after a change of engine or of defaults.
    /// Version 2: WebP is written without the EXIF of its source. Version 3: JPEG thumbnails are rendered from planes.
    static let version = "3"

    package init(_ kind: Kind, _ fields: [String]) {
        self.kind = kind
        var hash = SHA256()
        for field in [Self.version, kind.rawValue] + fields {
            withUnsafeBytes(of: UInt64(field.utf8.count).littleEndian) { hash.update(bufferPointer: $0) }
            var field = field
            field.withUTF8 { hash.update(bufferPointer: UnsafeRawBufferPointer($0)) }
        }
        digest = hash.finalize().hexDigits
    }

    public var description: String { "\(kind.rawValue):\(digest)" }
}

extension CacheKey {
    /// The key of the response that a request fetches: method, body, name, credential scope and all header fields.
    ///
    /// - Parameter revision: the size and modification time of a local file, which has no validators. Defaults to the
    ///   revision in the request; pass a value if the file has just been checked.
    static func original(of request: ImageRequest, revision: String? = nil) -> CacheKey {
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

    /// The key of the first part of an original whose download was interrupted.
    package static func partial(of original: CacheKey) -> CacheKey { CacheKey(.partial, [original.digest]) }

    /// The key of a rendition of this original.
    ///
    /// - Parameter engine: part of the key if one was chosen, so that the outputs of two engines are not confused.
    func rendition(_ rendition: Rendition, by engine: RenderEngineChoice = .auto) -> CacheKey {
        CacheKey(.rendition, [digest] + rendition.identity + (engine == .auto ? [] : ["engine=\(engine.rawValue)"]))
    }
}
