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

    /// Fault: the list lacked the libraries of Swift, which are in the program, and had a line "license unknown".
    @Test func thePackageHasTheLicensesOfItsParts() async throws {
        let directory = try TestDirectory()
        let mit = Data("Permission is hereby granted, free of charge, to any person".utf8)
        let apache = Data("Apache License\nRuntime Library Exception\n".utf8)
        try directory.write(apache, to: "checkouts/one/LICENSE.txt")
        try directory.write(mit, to: "checkouts/two/LICENSE")
        for name in ["NOTICE.txt", "Sources/C/LICENSE", "Tests/LICENSE"] {
            try directory.write(mit, to: "checkouts/two/\(name)")
        }
        try directory.write(Data("All rights reserved.".utf8), to: "checkouts/three/LICENSE")
        // A toolchain, of which only the answer of the compiler and the license are there.
        try directory.write(apache, to: "usr/share/swift/LICENSE.txt")
        let answer = #"{"compilerVersion": "Swift 6", "runtimeResourcePath": "\#(directory.path)/usr/lib/swift"}"#
        let compiler = try directory.write(Data("#!/bin/sh\necho '\(answer)'\n".utf8), to: "bin/swiftc")
        try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: compiler)
        try directory.write(Data(), to: "usr/lib/swift/empty")
        func list(_ lines: String) async throws -> ProgramUnderTest.Ending {
            let script = #"printf "$1" | "$2"/scripts/package-licenses checkouts licenses"#
            let program = try ProgramUnderTest(
                program: "/bin/sh",
                arguments: ["-c", script, "sh", lines, Repository.root],
                environment: ["PATH": "\(directory.path)/bin:/usr/bin:/bin"],
                directory: directory.path
            )
            return await program.ending()
        }
        let ending = try await list("one 1.0\ntwo 2.0\n")
        #expect(ending.code == 0, "\(ending.errors)")
        let exception = "Apache-2.0 with the Swift exception"
        let lines = ending.output.split(separator: "\n").map(String.init)
        let swift = "runtime, standard library, Dispatch and Foundation of Swift 6: \(exception)"
        let icu = "ICU, in Foundation: Unicode license"
        #expect(lines == ["one 1.0: \(exception)", "two 2.0: MIT", swift, icu], "\(ending.output)")
        let texts = directory.files.filter { $0.hasPrefix("licenses/") }.map { String($0.dropFirst("licenses/".count)) }
        let ofTwo = ["two/LICENSE", "two/NOTICE.txt", "two/Sources/C/LICENSE"]
        #expect(Set(texts) == Set(["icu/copyright", "one/LICENSE.txt", "swift/LICENSE.txt"] + ofTwo), "\(texts)")
        let unknown = try await list("three 3.0\n")
        #expect(unknown.code == 70, "\(unknown.output)")
        #expect(unknown.errors.contains("checkouts/three/LICENSE is unknown"), "\(unknown.errors)")
    }

    @Test func theVersionIsTheNewestInTheChangelog() throws {
        let heading = try Repository.text("CHANGELOG.md").split(separator: "\n").first { $0.hasPrefix("## ") }
        #expect(heading?.split(separator: " ").dropFirst().first.map(String.init) == Megaton.version)
    }
}
