public import Foundation

/// Files made to crash or exhaust a decoder, which are outside the repository: `MEGATON_HOSTILE`, or
/// `../shared/hostile` beside the checkout. If they are missing, tests that need them are reported as skipped.
public enum Hostile {
    private static let root: URL = {
        if let path = ProcessInfo.processInfo.environment["MEGATON_HOSTILE"] { return URL(fileURLWithPath: path) }
        return URL(fileURLWithPath: Repository.root).deletingLastPathComponent()
            .appendingPathComponent("shared/hostile")
    }()

    public static var isThere: Bool { FileManager.default.fileExists(atPath: root.path) }

    public static func path(_ name: String) -> String { root.appendingPathComponent(name).path }

    public static func data(_ name: String) throws -> Data { try Data(contentsOf: root.appendingPathComponent(name)) }

    /// Names of the files with one of these extensions, sorted.
    public static func names(_ endings: Set<String>) -> [String] {
        let names = (try? FileManager.default.contentsOfDirectory(atPath: root.path)) ?? []
        return names.filter { endings.contains(($0 as NSString).pathExtension) }.sorted()
    }
}
