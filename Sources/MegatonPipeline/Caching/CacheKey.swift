internal import Crypto
internal import Foundation
internal import FoundationNetworking

/// The name of an entry in the caches and of the flight that makes it.
///
/// A SHA-256 over length-prefixed fields with a version in front: no two different lists of fields share a key, as
/// joined strings do.
public struct CacheKey: Sendable, Hashable, CustomStringConvertible {
    /// What the entry holds.
    public enum Kind: String, Sendable {
        case original = "o"
        case rendition = "r"
        /// A picture that was decoded and processed, in memory or encoded again.
        case image = "i"
        /// The beginning of an original whose download was interrupted.
        case partial = "p"
    }

    public let kind: Kind
    /// 64 hex digits.
    public let digest: String

    /// To be raised when the same fields no longer mean the same picture: a new engine, other defaults. 2: WebP is
    /// without the EXIF of its source. 3: thumbnails of JPEGs are made of planes.
    static let version = "3"

    public init(_ kind: Kind, _ fields: [String]) {
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
    /// The key of what a request fetches: its method and body, name, whose credentials, and all header fields.
    ///
    /// - Parameter revision: what a local file looked like (size and modification time): it has no validators. The
    ///   request's, unless somebody has just looked.
    static func original(of request: ImageRequest, revision: String? = nil) -> CacheKey {
        original(of: request, sending: VaryKey.lines(request.sentFields), revision: revision)
    }

    /// The key of what requests fetch that differ in nothing but header fields, where the response does not vary by these
    /// (RFC 9111 section 4.1). Fields that may tell who asks are in it all the same.
    ///
    /// - Returns: nil if that is the key of `original(of:)` too, as of all requests without header fields.
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
        // No method has a blank in it.
        let body = urlRequest?.httpBody.map { " " + SHA256.hash(data: $0).hexDigits } ?? ""
        return CacheKey(
            .original,
            [
                (urlRequest?.httpMethod ?? "GET") + body, request.originalName ?? request.imageID ?? "",
                request.credentialScope ?? "", revision,
            ] + lines
        )
    }

    /// The key of a request's image. A request that changes nothing has one name only: the original's.
    static func image(of request: ImageRequest) -> CacheKey {
        guard request.changesOriginal else { return original(of: request) }
        return CacheKey(
            .image,
            [original(of: request).digest, request.thumbnail?.identifier ?? ""] + request.processors.map(\.identifier)
        )
    }

    /// The key of what an interrupted download of an original has left.
    public static func partial(of original: CacheKey) -> CacheKey { CacheKey(.partial, [original.digest]) }

    /// The key of a rendition of this original.
    ///
    /// - Parameter engine: where it was chosen, what it makes is not mistaken for what another one made.
    func rendition(_ rendition: Rendition, by engine: RenderEngineChoice = .auto) -> CacheKey {
        CacheKey(.rendition, [digest] + rendition.identity + (engine == .auto ? [] : ["engine=\(engine.rawValue)"]))
    }
}

extension Digest {
    /// Lower-case hex.
    var hexDigits: String {
        let digits = Array("0123456789abcdef".utf8)
        return String(unsafeUninitializedCapacity: Self.byteCount * 2) { buffer in
            var index = 0
            for byte in self {
                buffer[index] = digits[Int(byte >> 4)]
                buffer[index + 1] = digits[Int(byte & 15)]
                index += 2
            }
            return index
        }
    }
}
