internal import Crypto
internal import Foundation

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
    /// Version 4: so are others, and columns that were wrong with AVX-512 are right. Version 5: JPEGs of planes have
    /// other quantization tables, and those at a quarter are made from four coefficients. Version 6: so do those of PNG
    /// and WebP sources, and scaling rounds otherwise. Originals have stayed as they were.
    private static func version(of kind: Kind) -> String { kind == .rendition ? "6" : "3" }

    package init(_ kind: Kind, _ fields: [String]) {
        self.kind = kind
        var hash = SHA256()
        for field in [Self.version(of: kind), kind.rawValue] + fields {
            withUnsafeBytes(of: UInt64(field.utf8.count).littleEndian) { hash.update(bufferPointer: $0) }
            var field = field
            field.withUTF8 { hash.update(bufferPointer: UnsafeRawBufferPointer($0)) }
        }
        digest = hash.finalize().hexDigits
    }

    /// A key whose digest is known, e.g. from its name in a cache.
    package init(_ kind: Kind, digest: String) {
        self.kind = kind
        self.digest = digest
    }

    public var description: String { "\(kind.rawValue):\(digest)" }
}

extension CacheKey {
    /// The key of the first part of an original whose download was interrupted.
    package static func partial(of original: CacheKey) -> CacheKey { CacheKey(.partial, [original.digest]) }

    /// The key of a rendition of this original.
    ///
    /// - Parameter engine: part of the key if one was chosen, so that the outputs of two engines are not confused.
    package func rendition(_ rendition: Rendition, by engine: RenderEngineChoice = .auto) -> CacheKey {
        CacheKey(.rendition, [digest] + rendition.identity + (engine == .auto ? [] : ["engine=\(engine.rawValue)"]))
    }
}
