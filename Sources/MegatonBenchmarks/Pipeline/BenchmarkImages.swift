import Foundation
import MegatonCommandLine

/// The images that `megaton-bench pipeline` renders, as bytes in memory.
struct BenchmarkImages: Sendable {
    /// One image.
    struct Image: Sendable {
        let path: String
        let data: Data
    }

    private(set) var images: [Image] = []
    /// Whether some inputs exceeded the limits.
    private(set) var isCut = false

    /// Maximum number of files.
    static let countLimit = 1000
    /// Number of bytes after which no further file is read.
    private static let sizeLimit = 1 << 30

    /// Reads the images; blocks.
    ///
    /// - Parameter arguments: files, directories and lists of them, as for `megaton run`.
    /// - Throws: `CLIError` if an input cannot be read, or is not a local file.
    init(_ arguments: [String]) throws {
        var reader = try InputReader(InputSelection(arguments: arguments))
        var size = 0
        while !reader.isAtEnd {
            for input in try reader.next(1) {
                if images.count == Self.countLimit || size >= Self.sizeLimit {
                    isCut = true
                    return
                }
                let image = try Self.image(input)
                size += image.data.count
                images.append(image)
            }
        }
    }

    private static func image(_ input: Input) throws -> Image {
        guard case .source(let text, _) = input, let url = URL(string: text), url.isFileURL else {
            throw CLIError.usage(
                "megaton-bench pipeline reads local files only, so that loading is not measured."
            )
        }
        do {
            return Image(path: url.path, data: try Data(contentsOf: url))
        } catch {
            throw CLIError.usage("\(url.path) cannot be read: \(CLIError.reason(error)).")
        }
    }
}
