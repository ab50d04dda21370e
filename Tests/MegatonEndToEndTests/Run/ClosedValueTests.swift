import Foundation
import MegatonPipeline
import MegatonTestSupport
import Testing

/// Options that have a closed set of values: a message about any other value has the allowed ones, and no Swift.
@Suite(.timeLimit(.minutes(3))) struct ClosedValueTests {
    /// An option with a value that it does not have, and the words that the message must have.
    private struct Usage: Sendable {
        var command = ["run", "/tmp", "--output", "/tmp/x"]
        let option: String
        let value: String
        let words: [String]
    }

    private static func words<Choice: WordChoice>(of type: Choice.Type) -> [String] {
        type.allCases.map { $0.preferredWord }
    }

    /// Options whose values come from the types of the library.
    private static let renditions: [(option: String, value: String, words: [String])] = [
        ("--format", "bmp", words(of: Rendition.Format.self)), ("--fit", "round", words(of: Rendition.Fit.self)),
        ("--gravity", "up", words(of: Rendition.Gravity.self)), ("--chroma", "422", words(of: Rendition.Chroma.self)),
        ("--keep-metadata", "gps", words(of: Rendition.KeptMetadata.self)),
        ("--profile", "p3", words(of: Rendition.ColorProfile.self)),
        ("--quality-profile", "best", words(of: Rendition.QualityProfile.self)),
        ("--fail-on", "never", words(of: Rendition.FailOn.self)),
        ("--rotate", "45", words(of: Rendition.Rotation.self)), ("--flip", "up", words(of: Rendition.Flip.self)),
    ]

    private static let others: [(option: String, value: String, words: [String])] = [
        ("--engine", "magick", RenderEngineChoice.allCases.map { $0.rawValue }),
        ("--cache-policy", "most", ImagePipeline.DataCachePolicy.allCases.map { $0.rawValue }),
        ("--allow-type", "pdf", ["tiff", "svg", "jxl"]), ("--priority", "urgent", ["high", "normal", "bulk"]),
        ("--input-format", "xls", ["csv", "tsv", "txt", "jsonl", "sitemap"]),
        ("--log-level", "loud", ["trace", "debug", "info", "notice", "warning", "error", "critical"]),
        ("--facts", "gps", ["none", "exif", "phash"]),
        // Not words, but the form of a value.
        ("--background", "red", ["#ffffff"]), ("--trim", "some", ["true", "false", "whole number"]),
        ("--sharpen", "some", ["true", "false", "number"]), ("--padding", "1,2", ["top, right, bottom, left"]),
        ("--focus", "left", ["0.5,0.3"]), ("--size", "big", ["256x256"]),
    ]

    private static var usages: [Usage] {
        let ofRun = (renditions + others).map { Usage(option: $0.option, value: $0.value, words: $0.words) }
        let worker = ["worker", "--redis", "redis://127.0.0.1:1"]
        let ofWorker = [
            Usage(command: worker, option: "--fail-on", value: "never", words: words(of: Rendition.FailOn.self)),
            Usage(command: worker, option: "--log-level", value: "loud", words: ["trace", "debug", "critical"]),
        ]
        return ofRun + ofWorker
    }

    /// Names of Swift that an error must not have.
    private static let swift = ["Cannot initialize", "init(", "Optional", "Error Domain", "DecodingError", "rawValue"]

    /// Fault: the message for an unknown format was "Cannot initialize Format from invalid String value".
    @Test func anUnknownValueIsAnsweredWithTheAllowedOnes() async throws {
        try await inPairs(Self.usages) { usage in
            let ending = await (try ProgramUnderTest.megaton(usage.command + [usage.option, usage.value])).ending()
            let text = "\(usage.option) \(usage.value): \(ending.errors)"
            #expect(ending.code == 64, "\(text)")
            // The help that may follow the message has all words, too.
            let message = ending.errors.split(separator: "\n").first { $0.contains(usage.option) } ?? ""
            for word in [usage.value] + usage.words { #expect(message.contains(word), "\(word) is missing in \(text)") }
            for word in Self.swift { #expect(!ending.errors.contains(word), "\(text)") }
        }
    }

    /// Each field of `--rendition` that has words names them, and itself.
    @Test func anUnknownValueOfAFieldIsAnsweredWithTheAllowedOnes() async throws {
        try await inPairs(Self.renditions) { (option, value, words) in
            // --keep-metadata is keepMetadata.
            let parts = option.dropFirst(2).split(separator: "-")
            let field = parts.dropFirst().reduce(String(parts[0])) { $0 + $1.capitalized }
            let arguments = ["run", "/tmp", "--output", "/tmp/x", "--rendition", "width=9,\(field)=\(value)"]
            let ending = await (try ProgramUnderTest.megaton(arguments)).ending()
            #expect(ending.code == 64, "\(ending.errors)")
            let message = ending.errors.split(separator: "\n").first { $0.contains("--rendition: \(field) ") } ?? ""
            for word in [value] + words { #expect(message.contains(word), "\(word) is missing: \(ending.errors)") }
            for word in Self.swift { #expect(!ending.errors.contains(word), "\(ending.errors)") }
        }
    }
}
