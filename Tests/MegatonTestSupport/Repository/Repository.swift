import Foundation

/// The checkout from which the tests were built.
public enum Repository {
    /// This file is in `Tests/MegatonTestSupport/Repository`.
    public static let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent().deletingLastPathComponent().path

    /// The files beneath a folder, relative to the root.
    public static func files(_ folder: String) -> [String] {
        let all = FileManager.default.enumerator(atPath: "\(root)/\(folder)")?.compactMap { $0 as? String } ?? []
        return all.map { "\(folder)/\($0)" }.sorted()
    }

    /// The Swift files beneath a folder, relative to the root.
    public static func swiftFiles(_ folder: String) -> [String] { files(folder).filter { $0.hasSuffix(".swift") } }

    public static func text(_ file: String) throws -> String {
        try String(contentsOfFile: "\(root)/\(file)", encoding: .utf8)
    }
}
