public import Foundation

/// Real, odd and hostile files, which are outside the repository: `MEGATON_CORPUS`, or `../shared/corpus` beside the
/// checkout. If they are missing, tests that need them are reported as skipped.
public enum Corpus {
    private static let root: URL = {
        if let path = ProcessInfo.processInfo.environment["MEGATON_CORPUS"] { return URL(fileURLWithPath: path) }
        return URL(fileURLWithPath: Repository.root).deletingLastPathComponent()
            .appendingPathComponent("shared/corpus")
    }()

    public static var isThere: Bool { FileManager.default.fileExists(atPath: root.path) }

    public static func path(_ name: String) -> String { root.appendingPathComponent(name).path }

    public static func data(_ name: String) throws -> Data { try Data(contentsOf: root.appendingPathComponent(name)) }

    /// Good and bad images up to a size in bytes, sorted by name; empty if the corpus is missing.
    public static func smallImages(upTo size: Int = 4096) -> [Data] {
        let names = FileManager.default.enumerator(atPath: root.path)?.compactMap { $0 as? String } ?? []
        let endings = ["jpg", "jpeg", "png", "gif", "webp", "avif", "heic"]
        return names.sorted().filter { name in endings.contains { name.lowercased().hasSuffix($0) } }.compactMap {
            name in
            let attributes = try? FileManager.default.attributesOfItem(atPath: path(name))
            return attributes?[.size] as? Int ?? .max <= size ? try? data(name) : nil
        }
    }
}
