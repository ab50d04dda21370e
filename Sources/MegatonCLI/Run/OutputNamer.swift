import Foundation
import MegatonCommandLine

/// Gives each source an output path of its own.
///
/// Remembers a hash of each path and of its source, about 24 bytes per source, so that a list of any length can be read
/// as a stream. Beyond a limit every path contains a hash of its source instead, which needs no memory.
struct OutputNamer {
    private var used: [UInt64: UInt64] = [:]
    private let limit: Int

    init(limit: Int = 5_000_000) { self.limit = limit }

    /// The path itself, or with a short hash of the source if another source has it. The same source gets the same path
    /// again.
    mutating func path(_ path: String, for source: String) -> String {
        let key = Self.fingerprint(path)
        let hash = Self.fingerprint(source)
        if let owner = used[key] { return owner == hash ? path : hashed(path, source) }
        guard used.count < limit else { return hashed(path, source) }
        used[key] = hash
        return path
    }

    private func hashed(_ path: String, _ source: String) -> String { "\(path)-\(OutputPath.hash(source))" }

    /// FNV-1a: stable between runs, which Swift's own hashes are not.
    private static func fingerprint(_ text: String) -> UInt64 {
        text.utf8.reduce(0xCBF2_9CE4_8422_2325) { ($0 ^ UInt64($1)) &* 0x100_0000_01B3 }
    }
}
