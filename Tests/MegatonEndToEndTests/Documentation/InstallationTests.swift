import Foundation
import MegatonCluster
import MegatonTestSupport
import Testing

/// The installed program, by the steps in `deploy`.
@Suite(.timeLimit(.minutes(1))) struct InstallationTests {
    @Test func theInstalledProgramIsStrippedAndRuns() async throws {
        let target = ".build/release/megaton /usr/local/bin/megaton"
        let line = try DocumentationPages.lines(of: "deploy/README.md").first { $0.isCode && $0.text.hasSuffix(target) }
        let words = try #require(line).text.split(separator: " ").dropLast(2).map(String.init)
        #expect(words.first == "install")
        let directory = try TestDirectory()
        let built = URL(fileURLWithPath: CommandLine.arguments[0]).deletingLastPathComponent().path + "/megaton"
        let installed = directory.path + "/megaton"
        let install = try ProgramUnderTest(
            program: "/usr/bin/install",
            arguments: words.dropFirst() + [built, installed]
        )
        let ending = await install.ending()
        #expect(ending.code == 0, "\(ending.errors)")

        let reader = try ProgramUnderTest(program: "/usr/bin/readelf", arguments: ["--section-headers", installed])
        let sections = await reader.ending().output
        #expect(sections.contains(".dynsym") && !sections.contains(".symtab"), "\(sections)")
        let version = await (try ProgramUnderTest(program: installed, arguments: ["--version"])).ending()
        #expect(version.code == 0 && version.output == Megaton.version + "\n", "\(version.errors)")
    }

    @Test func theContainerHasAStrippedProgram() throws {
        let steps = try Repository.text("deploy/Containerfile").split(separator: "\n")
        let build = try #require(steps.first { $0.contains("--product megaton ") })
        #expect(build.hasSuffix("&& strip .build/release/megaton"), "\(build)")
    }

    /// Fault: documents of the package had links to articles that it lacked. The script fails for such a link.
    @Test func theDocumentsOfThePackageHaveTheFilesThatTheyName() async throws {
        let directory = try TestDirectory()
        let script = Repository.root + "/scripts/package-documents"
        let ending = await (try ProgramUnderTest(program: script, arguments: [directory.path])).ending()
        #expect(ending.code == 0, "\(ending.errors)")
        let readme = try String(contentsOfFile: directory.path + "/README.md", encoding: .utf8)
        #expect(readme.contains("articles/Caching.md") && !readme.contains("Documentation.docc"), "\(readme)")
        for name in ["articles/Caching.md", "deploy/README.md", "examples/python/submit.py", "changelog.gz"] {
            #expect(FileManager.default.fileExists(atPath: "\(directory.path)/\(name)"), "\(name)")
        }
    }

    @Test func theVersionIsTheNewestInTheChangelog() throws {
        let heading = try Repository.text("CHANGELOG.md").split(separator: "\n").first { $0.hasPrefix("## ") }
        #expect(heading?.split(separator: " ").dropFirst().first.map(String.init) == Megaton.version)
    }
}
