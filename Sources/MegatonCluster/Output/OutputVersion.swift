internal import Foundation
internal import MegatonPipeline

/// The version of an output: which rendition of which original it is, and when the origin was asked for the original.
///
/// It is kept in an extended attribute of the file, or in the metadata of the object, so that a job that began earlier
/// with an older original does not replace the output of a later job. On a file system without extended attributes
/// outputs have no version, and the last writer wins.
struct OutputVersion: Sendable, Equatable {
    private static let attribute = "user.megaton.version"
    /// Maximum length of the attribute, bytes.
    private static let maximumSize = 128
    /// Versions further in the future, in seconds, come from a wrong clock and are ignored.
    private static let tolerance: Double = 300

    /// Seconds since 1970.
    let fetched: Double
    /// Digest of the rendition's cache key. Outputs of others have no order: a newer one may replace any of them.
    let rendition: String

    init(fetched: Double, rendition: String) {
        self.fetched = fetched
        self.rendition = rendition
    }

    /// Nil if no origin was asked, e.g. for a local file.
    init?(_ response: RenditionResponse) {
        guard let fetched = response.original?.fetched, let key = response.cacheKey else { return nil }
        self.init(fetched: fetched, rendition: String(key.digest.prefix(32)))
    }

    /// The version of an open file; nil if it has none.
    init?(of descriptor: Int32) {
        guard let fgetxattr = Self.fgetxattr else { return nil }
        var bytes = [UInt8](repeating: 0, count: Self.maximumSize)
        let count = fgetxattr(descriptor, Self.attribute, &bytes, bytes.count)
        guard count > 0 else { return nil }
        self.init(text: String(decoding: bytes.prefix(count), as: UTF8.self))
    }

    /// A version that was stored; nil if the text is none.
    init?(text: String) {
        let words = text.split(separator: " ")
        guard words.count == 2, let fetched = Double(words[0]),
            fetched <= Date().timeIntervalSince1970 + Self.tolerance
        else { return nil }
        self.init(fetched: fetched, rendition: String(words[1]))
    }

    /// The version as it is stored.
    var text: String { "\(fetched) \(rendition)" }

    /// Records the version of an open file.
    func set(of descriptor: Int32) {
        let bytes = Array(text.utf8)
        // A file system without extended attributes refuses this, and the file is good without it.
        _ = Self.fsetxattr?(descriptor, Self.attribute, bytes, bytes.count, 0)
    }

    /// Whether another version of the same rendition is newer.
    func isOutdated(by other: OutputVersion?) -> Bool {
        guard let other else { return false }
        return other.rendition == rendition && other.fetched > fetched
    }

    /// Whether an existing file is a newer version of the output that would replace it.
    ///
    /// - Parameter name: name of the file, if it differs from the output's.
    static func isOutdated(
        _ version: OutputVersion?,
        at place: FileAccess.OutputDirectory,
        named name: String? = nil
    ) -> Bool {
        guard let version else { return false }
        let flags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK
        let descriptor = openat(place.descriptor, name ?? place.name, flags, 0)
        guard descriptor >= 0 else { return false }
        defer { close(descriptor) }
        return version.isOutdated(by: OutputVersion(of: descriptor))
    }

    private typealias Setter =
        @convention(c) @Sendable (Int32, UnsafePointer<CChar>, UnsafeRawPointer, Int, Int32) -> Int32
    private typealias Getter =
        @convention(c) @Sendable (Int32, UnsafePointer<CChar>, UnsafeMutableRawPointer, Int) -> Int

    // Looked up by name, as Swift's module of the C library does not declare them.
    private static let fsetxattr: Setter? = dlsym(nil, "fsetxattr").map { unsafeBitCast($0, to: Setter.self) }
    private static let fgetxattr: Getter? = dlsym(nil, "fgetxattr").map { unsafeBitCast($0, to: Getter.self) }
}
