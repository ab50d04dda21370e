import Foundation
import MegatonTestSupport
import Testing

/// Style rules that a program can check.
@Suite struct TidyTests {
    private static let sources = Repository.swiftFiles("Sources")

    /// The modules that a file imports.
    private func imports(_ file: String) throws -> [String] {
        try Repository.text(file).split(separator: "\n").compactMap { line in
            let words = line.split(separator: " ").map(String.init).drop { $0.hasPrefix("@") }
            guard let index = words.prefix(2).firstIndex(of: "import"), index + 1 < words.endIndex else { return nil }
            return words[index + 1]
        }
    }

    /// The modules that each module is built on. It may import everything below those, too.
    private static let arrows: [String: Set<String>] = [
        "MegatonCore": [], "MegatonRendering": ["MegatonCore"], "MegatonHTTP": ["MegatonCore"],
        "MegatonPipeline": ["MegatonHTTP", "MegatonRendering"], "MegatonPipelineTesting": ["MegatonPipeline"],
        "MegatonRedis": ["MegatonCore"], "MegatonCluster": ["MegatonPipeline", "MegatonRedis"],
        "MegatonServer": ["MegatonCluster"], "MegatonCommandLine": ["MegatonCluster"],
        "MegatonCLI": ["MegatonCommandLine", "MegatonServer"],
        "MegatonBenchmarks": ["MegatonCommandLine"],
    ]

    private static func below(_ module: String) -> Set<String> {
        let direct = arrows[module] ?? []
        return direct.reduce(into: direct) { $0.formUnion(below($1)) }
    }

    @Test func arrowsPointDownOnly() throws {
        #expect(
            Self.below("MegatonCluster") == [
                "MegatonPipeline", "MegatonRedis", "MegatonHTTP", "MegatonRendering", "MegatonCore",
            ]
        )
        for file in Self.sources {
            let module = String(file.split(separator: "/")[1])
            for imported in try imports(file) where imported.hasPrefix("Megaton") {
                #expect(Self.below(module).contains(imported), "\(file) imports \(imported)")
            }
        }
    }

    @Test func cModulesAreImportedWhereTheyAreWrapped() throws {
        let homes = [
            "CVips": ["MegatonRendering/Vips/"],
            "CCodecs": ["MegatonRendering/Vips/", "MegatonRendering/Planes/"],
            "CDeflate": ["MegatonRendering/Planes/"],
            "CTurboJPEG": ["MegatonRendering/Planes/"], "CWebP": ["MegatonRendering/Planes/"],
            "CPlanes": ["MegatonRendering/Planes/"], "CZlib": ["MegatonCommandLine/Inputs/"],
            // The parser of addresses is libcurl's own, so that both read the same address.
            "CCurl": ["MegatonHTTP/Client/", "MegatonHTTP/Access/"], "CHiredis": ["MegatonRedis/Codec/"],
        ]
        for file in Self.sources {
            for (module, folders) in homes where try imports(file).contains(module) {
                #expect(folders.contains { file.hasPrefix("Sources/\($0)") }, "\(file) imports \(module)")
            }
        }
    }

    @Test func onlyTheProgramsReadArgumentsAndEnvironment() throws {
        let programs = ["MegatonBenchmarks", "MegatonCLI", "MegatonCommandLine"]
        for file in Self.sources where !programs.contains(String(file.split(separator: "/")[1])) {
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

    /// Comments name their actors, use "if" for conditions, and begin with the thing that they describe. A pattern may
    /// occur once in 100 comment lines, as each of them has rare good uses.
    @Test func commentsAreInPlainEnglish() throws {
        var counts: [String: Int] = [:]
        var lines = 0
        let others = (Repository.files("Sources") + Repository.files("Tests")).filter { file in
            [".lua", ".h", ".c"].contains { file.hasSuffix($0) }
        }
        for file in Self.sources + Repository.swiftFiles("Tests") + others + ["Package.swift"] {
            let mark = file.hasSuffix(".lua") ? "--" : "//"
            for line in try Repository.text(file).split(separator: "\n") {
                let comment = line.drop { $0 == " " }
                guard comment.hasPrefix(mark) else { continue }
                lines += 1
                #expect(line.count <= 120, "\(file): \(comment)")
                #expect(comment.firstMatch(of: #/^\W+(?:What|Whoever|Whose) /#) == nil, "\(file): \(comment)")
                for pattern in Self.obscurities(in: comment) { counts[pattern, default: 0] += 1 }
            }
        }
        #expect(lines > 1000)
        for (pattern, count) in counts {
            #expect(count * 100 <= lines, "\(count) times \(pattern) in \(lines) comment lines")
        }
    }

    @Test func obscureCommentsAreFound() {
        let found = Self.obscurities(in: "/// What a worker has told whoever waits, where nobody asked")
        #expect(found.sorted() == ["a person", "a person", "tell", "what as a noun", "where for if"])
        #expect(Self.obscurities(in: "/// Jobs that this worker has claimed, by the host that runs them").isEmpty)
    }

    /// A comment says a rule in words; numbers of rows in lists elsewhere are of no use here.
    @Test func commentsOfTestsHaveNoCodes() throws {
        for file in Repository.swiftFiles("Tests") {
            for line in try Repository.text(file).split(separator: "\n") {
                let comment = line.drop { $0 == " " }
                guard comment.hasPrefix("//") else { continue }
                #expect(Self.codes(in: comment).isEmpty, "\(file): \(comment)")
            }
        }
    }

    @Test func codesAreFound() {
        #expect(
            Self.codes(in: "// B 37, K1: Row D13 (no. 4), scenario 7") == ["B 37", "K1", "D13", "no. 4", "scenario 7"]
        )
        #expect(Self.codes(in: "/// A 304 from S3, P3 and 16 MB of H.265, `xxhsum -H2`, RFC 9111 section 4").isEmpty)
    }

    private static func codes(in comment: Substring) -> [String] {
        comment.matches(
            of: /(?:^|[ (])((?:[B-Z] |[BDHIKNRU])[0-9]{1,2}|(?:no\.|[Ss]cenarios?) [0-9]+)(?![-.A-Za-z0-9])/
        ).map {
            String($0.output.1)
        }
    }

    /// The patterns of unclear English in a comment, each as often as it occurs.
    private static func obscurities(in comment: Substring) -> [String] {
        let words = comment.split { !$0.isLetter }.map(String.init)
        var found = words.filter(persons.contains).map { _ in "a person" }
        found += words.filter(telling.contains).map { _ in "tell" }
        for (word, next) in zip(words, words.dropFirst()) {
            if word.lowercased() == "where", afterWhere.contains(next) { found.append("where for if") }
            if word.lowercased() == "what", afterWhat.contains(next) { found.append("what as a noun") }
        }
        return found
    }

    private static let persons: Set<String> = ["who", "whoever", "somebody", "nobody", "anybody"]
    private static let telling: Set<String> = ["tell", "tells", "told", "telling"]
    private static let afterWhere: Set<String> = [
        "it", "there", "nothing", "nobody", "that", "the", "a", "one", "what", "they", "no", "somebody",
    ]
    private static let afterWhat: Set<String> = [
        "is", "was", "has", "had", "a", "the", "it", "they", "comes", "came", "can", "cannot", "may", "must", "are",
        "were", "somebody", "others", "waits", "runs", "ended", "ends", "follows", "this",
    ]
}
