public import Foundation

/// Real, odd and hostile files, which lie outside the repository: `MEGATON_CORPUS`, or `../shared/corpus` beside the
/// checkout. Tests that need them are skipped, visibly, where they are not there.
public enum Corpus {
    private static let root: URL = {
        if let path = ProcessInfo.processInfo.environment["MEGATON_CORPUS"] { return URL(fileURLWithPath: path) }
        return URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().deletingLastPathComponent().appendingPathComponent("shared/corpus")
    }()

    public static var isThere: Bool { FileManager.default.fileExists(atPath: root.path) }

    public static func path(_ name: String) -> String { root.appendingPathComponent(name).path }

    public static func data(_ name: String) throws -> Data { try Data(contentsOf: root.appendingPathComponent(name)) }
}
