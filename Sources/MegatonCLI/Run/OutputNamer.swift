import Foundation
import MegatonCluster
import MegatonCommandLine
import MegatonPipeline

/// Gives each source an output path of its own, and each rendition of a source a file of its own.
///
/// Remembers a hash of each path and file and of its source, about 24 bytes for each, so that a list of any length can
/// be read as a stream. Beyond a limit every path contains a long hash of its source instead, which needs no memory;
/// files beyond it are not compared.
struct OutputNamer {
    /// Owners of paths.
    private var used: [UInt64: UInt64] = [:]
    /// Owners of files.
    private var files: [UInt64: UInt64] = [:]
    /// Maximum number of paths, and of files.
    private let limit: Int

    /// Hex digits of a long hash: of 100 million sources two share one in 3,700 runs.
    private static let longHash = 16

    init(limit: Int = 5_000_000) { self.limit = limit }

    /// The path itself, or with a short hash of the source if another source has it, or with a long one if another
    /// source has that too: of a million sources with one path, some hundred share their short hash. The same source
    /// with the same renditions gets the same path again. If one of its files is that of another rendition, of the same
    /// source or of one whose path is a part of this one, the hash is of the renditions too.
    ///
    /// - Parameters:
    ///   - renditions: those of the job; empty if they are not known here.
    ///   - add: adds the hash to a path; at its end by default.
    ///   - template: the template of the files of a path; the path itself by default.
    mutating func path(
        _ path: String,
        for source: String,
        _ renditions: [Rendition] = [],
        adding add: (_ hash: String, _ path: String) -> String = { "\($1)-\($0)" },
        template: (_ path: String) -> String = { $0 }
    ) -> String {
        let owner = Self.fingerprint(source)
        let outputs = renditions.map { Output($0, of: source) }
        if takes(path, owner, outputs, template) { return path }
        let withRenditions = ([source] + renditions.flatMap { [$0.name] + $0.identity }).joined(separator: "\n")
        var hashed = used[Self.fingerprint(path)] == owner ? withRenditions : source
        var short = add(OutputPath.hash(hashed), path)
        if takes(short, owner, outputs, template) { return short }
        if hashed == source, used[Self.fingerprint(short)] == owner {
            // The source has that path, with other renditions.
            hashed = withRenditions
            short = add(OutputPath.hash(hashed), path)
            if takes(short, owner, outputs, template) { return short }
        }
        let long = add(Self.longHash(of: hashed), path)
        if used.count >= limit || takes(long, owner, outputs, template) { return long }
        return add(Self.longHash(of: withRenditions), path)
    }

    private static func longHash(of text: String) -> String {
        String(Checksum.sha256(Data(text.utf8)).prefix(longHash))
    }

    /// A rendition of a source, as far as its file depends on it.
    private struct Output {
        let name: String
        let fileExtension: String
        /// Identifies the source and all options.
        let owner: UInt64

        init(_ rendition: Rendition, of source: String) {
            name = rendition.name
            fileExtension = rendition.format.fileExtension
            owner = OutputNamer.fingerprint(([source] + rendition.identity).joined(separator: "\n"))
        }

        /// The file; nil if its name has the size of the rendition or another part that is not known yet.
        func file(_ template: String) -> String? {
            let file = template.replacing("{name}", with: name).replacing("{ext}", with: fileExtension)
            return file.contains("{") ? nil : file
        }
    }

    /// Whether a source has a path and the files there, which it gets if no other one has them.
    private mutating func takes(
        _ path: String,
        _ owner: UInt64,
        _ outputs: [Output],
        _ template: (_ path: String) -> String
    ) -> Bool {
        let key = Self.fingerprint(path)
        if let known = used[key] {
            if known != owner { return false }
        } else if used.count >= limit {
            return false
        }
        var new: [(file: UInt64, owner: UInt64)] = []
        for output in outputs {
            guard let file = output.file(template(path)) else { continue }
            new.append((Self.fingerprint(file), output.owner))
        }
        for (file, owner) in new {
            if let known = files[file], known != owner { return false }
        }
        used[key] = owner
        if files.count < limit { for (file, owner) in new { files[file] = owner } }
        return true
    }

    /// FNV-1a: stable between runs, which Swift's own hashes are not.
    fileprivate static func fingerprint(_ text: String) -> UInt64 {
        text.utf8.reduce(0xCBF2_9CE4_8422_2325) { ($0 ^ UInt64($1)) &* 0x100_0000_01B3 }
    }
}
