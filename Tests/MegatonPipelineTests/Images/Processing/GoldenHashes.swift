import Foundation
import MegatonPipeline
import MegatonTestSupport
import Testing

/// `Golden/hashes.txt`: hashes of the golden tests' images, recorded after a person had looked at them.
enum GoldenHashes {
    private static let file = URL(fileURLWithPath: Repository.root)
        .appendingPathComponent("Tests/MegatonPipelineTests/Golden/hashes.txt")

    /// Whether to record hashes instead of comparing them. Set by scripts/record-hashes.
    static var isRecording: Bool { ProcessInfo.processInfo.environment["MEGATON_RECORD"] == "1" }

    static func read() throws -> [String: ImageHash] {
        guard FileManager.default.fileExists(atPath: file.path) else { return [:] }
        var hashes: [String: ImageHash] = [:]
        for line in try String(contentsOf: file, encoding: .utf8).split(separator: "\n") {
            guard let space = line.firstIndex(of: " ") else { continue }
            hashes[String(line[..<space])] = ImageHash(String(line[space...]))
        }
        return hashes
    }

    /// Compares images with the recorded hashes, or records them. An image that differs is written to a PNG file.
    static func check(_ images: [(name: String, image: PlatformImage)]) throws {
        var hashes = try read()
        if isRecording {
            for (name, image) in images { hashes[name] = ImageHash(image) }
            let lines = hashes.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value)\n" }
            try Data(lines.joined().utf8).write(to: file)
            return
        }
        for (name, image) in images {
            let hash = ImageHash(image)
            if let expected = hashes[name], hash.looksLike(expected) { continue }
            let expected = hashes[name].map(\.description) ?? "nothing: ./scripts/record-hashes keeps it"
            let path = try keepFailed(name, image)
            Issue.record("\(name) is \(hash), expected was \(expected). The picture: \(path)")
        }
    }

    private static func keepFailed(_ name: String, _ image: PlatformImage) throws -> String {
        let url = URL(fileURLWithPath: Repository.root).appendingPathComponent(".build/failed-images/\(name).png")
        try FileManager.default.createDirectory(
            at: url.deletingLastPathComponent(),
            withIntermediateDirectories: true
        )
        try #require(ImageEncoders.Vips(format: .png).encode(image)).write(to: url)
        return url.path
    }
}
