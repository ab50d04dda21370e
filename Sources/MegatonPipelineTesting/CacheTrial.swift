import Foundation
import MegatonPipeline

/// One running check of a cache, with keys of its own.
struct CacheTrial: Sendable {
    let cache: any DataCaching
    let check: DataCachingConformance.Check
    private let prefix = UUID().uuidString

    init(cache: any DataCaching, check: DataCachingConformance.Check) {
        self.cache = cache
        self.check = check
    }

    func key(_ name: String) -> String { "\(prefix) \(name)" }

    /// Returns data whose integrity can be verified: the key, the version, and filling whose length and bytes depend on
    /// the version.
    func stamp(_ key: String, _ version: Int) -> Data {
        let filling = Data(repeating: UInt8(truncatingIfNeeded: version), count: 1000 + version * 997 % 20_000)
        return Data("\(version) \(key) ".utf8) + filling
    }

    /// - Returns: whether the data is a stamp of this key.
    func isStamp(_ data: Data, of key: String) -> Bool {
        guard let version = Int(String(decoding: data.prefix { $0 != UInt8(ascii: " ") }, as: UTF8.self)) else {
            return false
        }
        return data == stamp(key, version)
    }

    func require(_ condition: Bool, _ found: @autoclosure () -> String) throws(ConformanceFailure) {
        if !condition { throw ConformanceFailure(check: check.rawValue, rule: check.rule, found: found()) }
    }

    func require(_ key: String, holds expected: Data?) async throws(ConformanceFailure) {
        let found = await cache.cachedData(for: key)
        try require(found == expected, "for \(Self.excerpt(key)) \(Self.text(found)), not \(Self.text(expected))")
    }

    static func text(_ data: Data?) -> String { data.map { "\($0.count) bytes (\($0.hashValue))" } ?? "nothing" }

    /// Returns a printable excerpt of a key, which may be long or not printable.
    static func excerpt(_ key: String) -> String {
        key.count <= 80 ? key.debugDescription : "\(key.prefix(60).debugDescription)… of \(key.utf8.count) bytes"
    }
}
