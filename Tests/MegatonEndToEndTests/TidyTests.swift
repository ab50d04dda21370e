import Foundation
import MegatonTestSupport
import Testing

/// Style rules that a program can check.
@Suite struct TidyTests {
    private static let sources = Repository.swiftFiles("Sources")

    private func imports(_ file: String) throws -> [String] {
        try Repository.text(file).split(separator: "\n").compactMap { line in
            let words = line.split(separator: " ").map(String.init)
            guard let index = words.firstIndex(of: "import"), index <= 1, index + 1 < words.count else { return nil }
            return words[index + 1]
        }
    }

    @Test func arrowsPointDownOnly() throws {
        let below: [String: Set<String>] = [
            "MegatonPipeline": [], "MegatonPipelineTesting": ["MegatonPipeline"], "MegatonRedis": [],
            "MegatonCluster": ["MegatonPipeline", "MegatonRedis"],
            "MegatonCLI": ["MegatonCluster", "MegatonPipeline", "MegatonRedis"],
        ]
        for file in Self.sources {
            let module = String(file.split(separator: "/")[1])
            for imported in try imports(file) where imported.hasPrefix("Megaton") {
                #expect(below[module]?.contains(imported) == true, "\(file) imports \(imported)")
            }
        }
    }

    @Test func eachCModuleIsImportedInOneFolder() throws {
        let homes = [
            "CVips": "MegatonPipeline/Vips/", "CCurl": "MegatonPipeline/Loading/", "CHiredis": "MegatonRedis/Codec/",
            "CTurboJPEG": "MegatonPipeline/Planes/", "CWebP": "MegatonPipeline/Planes/",
            "CZimg": "MegatonPipeline/Planes/", "CDecoders": "MegatonPipeline/Vips/",
        ]
        for file in Self.sources {
            for (module, home) in homes where try imports(file).contains(module) {
                #expect(file.hasPrefix("Sources/\(home)"), "\(file) imports \(module)")
            }
        }
    }

    @Test func onlyTheProgramReadsArgumentsAndEnvironment() throws {
        for file in Self.sources where !file.hasPrefix("Sources/MegatonCLI/") {
            let text = try Repository.text(file)
            for word in ["ProcessInfo.processInfo.environment", "CommandLine.arguments", "getenv("] {
                #expect(!text.contains(word), "\(file) uses \(word)")
            }
        }
    }

    @Test func filesAreOfAHumanSize() throws {
        for file in Self.sources {
            let lines = try Repository.text(file).split(separator: "\n", omittingEmptySubsequences: false)
            #expect(lines.count <= 500, "\(file) has \(lines.count) lines")
        }
    }

    @Test func nothingIsLeftOpen() throws {
        for file in Self.sources {
            let text = try Repository.text(file)
            for word in ["TODO", "FIXME", "try!", "fatalError(", " as! "] {
                #expect(!text.contains(word), "\(file) contains \(word)")
            }
        }
    }
}
