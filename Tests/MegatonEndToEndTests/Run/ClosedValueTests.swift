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

    /// Options with bounds, a value that is no number, and the bounds or at least the kind.
    private static let numbers: [(option: String, value: String, words: [String])] = [
        ("--workers", "abc", ["must be 1 to 256"]), ("--shard-size", "x", ["must be 1 to 1048576 MiB"]),
        ("--max-bytes", "10k", ["allowed are 1 to 1073741824 bytes"]), ("--quality", "1.5", ["allowed are 1 to 100"]),
        ("--max-pixels", "5M", ["must be 0.001 to 10000 megapixels"]), ("--pack", "'", ["must be 0 to 256"]),
        ("--blur", "b", ["allowed are numbers from 0.3 to 100"]), ("--timeout", "1h", ["must be a number"]),
    ]

    private static var usages: [Usage] {
        let ofRun = (renditions + others + numbers).map { Usage(option: $0.option, value: $0.value, words: $0.words) }
        let worker = ["worker", "--redis", "redis://127.0.0.1:1"]
        let ofWorker = [
            Usage(command: worker, option: "--fail-on", value: "never", words: words(of: Rendition.FailOn.self)),
            Usage(command: worker, option: "--log-level", value: "loud", words: ["trace", "debug", "critical"]),
        ]
        return ofRun + ofWorker
    }

    /// Names of Swift that an error must not have.
    private static let swift = [
        "is invalid for", "Cannot initialize", "init(", "Optional", "Error Domain", "DecodingError", "rawValue",
    ]

    /// Fault: the message for an unknown format was "Cannot initialize Format from invalid String value".
    @Test func anUnknownValueIsAnsweredWithTheAllowedOnes() async throws {
        try await inPairs(LongTests.sample(Self.usages, every: 3)) { usage in
            let ending = await (try ProgramUnderTest.megaton(usage.command + [usage.option, usage.value])).ending()
            let text = "\(usage.option) \(usage.value): \(ending.errors)"
            #expect(ending.code == 64, "\(text)")
            // The help that may follow the message has all words, too.
            let message = ending.errors.split(separator: "\n").first { $0.contains(usage.option) } ?? ""
            for word in [usage.value] + usage.words { #expect(message.contains(word), "\(word) is missing in \(text)") }
            for word in Self.swift { #expect(!ending.errors.contains(word), "\(text)") }
        }
    }

    @Test func otherFormsOfANumberAreFound() async throws {
        let reshard = ["queue", "reshard", "abc", "--redis", "redis://127.0.0.1:1"]
        let forms: [([String], String)] = [
            (["-jabc"], "--workers must be 1 to 256, not \"abc\""), (["-j", "abc"], "--workers must be 1 to 256"),
            (["--workers=abc"], "--workers must be 1 to 256, not \"abc\"."),
        ]
        for (arguments, message) in forms.map({ (["run", "/tmp", "--output", "/tmp/x"] + $0, $1) })
            + [(reshard, "The number of shards must be 1 to 128, not \"abc\".")]
        {
            let ending = await (try ProgramUnderTest.megaton(arguments)).ending()
            #expect(ending.code == 64 && ending.errors.contains(message), "\(ending.errors)")
        }
    }

    /// Content of a file of presets, and a part of the message.
    private static let presets: [(String, String)] = [
        ("[]", "it is a list; allowed is an object with lists of renditions"), ("3", "it is 3; allowed is an object"),
        (#"{"web": "x"}"#, #"web is "x"; allowed are lists of renditions such as [{"name": "small", "width": 256}]"#),
        (#"{"web": {}}"#, "web is an object; allowed are lists"), (#"{"web": null}"#, "web is null; allowed are"),
        (#"{"web": [1]}"#, "web[0] is 1; allowed is an object"),
        (#"{"web": []}"#, "web is empty; allowed are 1 to 32 renditions"),
        (
            #"{"a": [{"width": 9}], "web": [{"name": "n", "width": 9}, {"name": "n", "width": 8}]}"#,
            #"web[1].name is "n", a name that web[0] shares"#
        ),
    ]

    /// Fault: the message had types of Swift, and a list that no job may have was accepted and failed each job.
    @Test func aPresetThatNoJobMayHaveIsRefusedAtTheStart() async throws {
        try await inPairs(Self.presets) { (content, message) in
            let directory = try TestDirectory()
            defer { directory.remove() }
            let file = try directory.write(Data(content.utf8), to: "presets.json")
            let run = ["run", directory.path, "--output", directory.path + "/out", "--presets", file]
            let ending = await (try ProgramUnderTest.megaton(run)).ending()
            #expect(ending.code == 64 && ending.errors.contains(message), "\(ending.errors)")
            for word in Self.swift + ["Expected", "Dictionary", "Array<"] {
                #expect(!ending.errors.contains(word), "\(ending.errors)")
            }
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
