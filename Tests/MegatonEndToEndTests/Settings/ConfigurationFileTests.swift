import Foundation
import MegatonTestSupport
import Testing

@testable import MegatonCLI
@testable import MegatonCommandLine

/// Configuration files: their content, their permissions, and messages about their faults.
@Suite(.timeLimit(.minutes(1))) struct ConfigurationFileTests {
    private func file(_ toml: String) throws -> ConfigurationFile {
        try ConfigurationFile(path: "/f.toml", data: Data(toml.utf8))
    }

    private func error(of toml: String) throws -> CLIError? {
        let check = ConfigurationCheck(MegatonCommand.self, rules: .program)
        return #expect(throws: CLIError.self) { try check.check(try file(toml)) }
    }

    @Test func sectionsAndValuesAreRead() throws {
        let read = try file(
            """
            # A comment
            redis = "redis://h"   # and one behind a value
            size = [ "1x1", 2,
              3 ]
            [worker]
            lease = 1.5
            allow-private = true
            "concurrency" = 1_000
            [cache.purge]
            dry-run = false
            [run]
            rendition = 'watermark={"text":"\\"}'
            """
        )
        #expect(
            read.sections[""] == ["redis": .text("redis://h"), "size": .list([.text("1x1"), .whole(2), .whole(3)])]
        )
        #expect(
            read.sections["worker"] == [
                "lease": .number(1.5), "allow-private": .flag(true), "concurrency": .whole(1000),
            ]
        )
        #expect(read.sections["cache.purge"] == ["dry-run": .flag(false)])
        #expect(read.sections["run"] == ["rendition": .text(#"watermark={"text":"\"}"#)])
        #expect(try file("").isEmpty && file("# nothing\n").isEmpty)
    }

    @Test(arguments: [
        ("concurency = 1", "no command has an option \"concurency\". Did you mean concurrency?"),
        ("[worker]\nconcurency = 1", "[worker] has no option \"concurency\". Did you mean concurrency?"),
        ("[worker]\nsize = \"1x1\"", "[worker] has no option \"size\"."),
        ("[wroker]\nlease = 1", "no command for the section [wroker]. Did you mean [worker]?"),
        ("[worker.pool]\nlease = 1", "[worker.pool]"), ("[cache]\njson = true", "[cache] is not one command"),
        ("[config]\njson = true", "[config]"), ("worker = 1", "worker must be a section, [worker]"),
        ("[worker]\nconcurrency = true", "/f.toml:worker.concurrency must be a string or a number, not a boolean."),
        ("concurrency = [1]", "/f.toml:concurrency must be a string or a number, not an array."),
        ("concurrency = 2026-01-01", "concurrency must be a string or a number, not a date"),
        ("allow-private = \"yes\"", "/f.toml:allow-private must be true or false, not a string."),
        ("allow-root = [true]", "/f.toml:allow-root must have strings or numbers only, not a boolean."),
        ("allow-root = [[\"a\"]]", "not an array"), ("allow-root = true", "must be an array of strings or numbers"),
        ("yes = true", "yes can be given on the command line only"),
        ("config = \"x\"", "config can be given on the command line only"),
        ("[cache.purge]\nhost = \"h\"", "host can be given on the command line only"),
        ("[worker]\nonly-suspects = true", "only-suspects can be given on the command line only"),
        ("a = ", "/f.toml is not TOML: line 1"), ("[worker]\n\nlease 5", "/f.toml is not TOML: line 3"),
        ("lease = 1\nlease = 2", "/f.toml is not TOML: line 2"), ("a = \"\u{0}\"", "is not text"),
        ("[worker]\nconcurrency = 0", "/f.toml:worker.concurrency must be 1 to 1024, not 0."),
        ("[worker]\nconcurrency = \"four\"", "/f.toml:worker.concurrency must be a whole number, not \"four\"."),
        ("[worker]\nlease = \"long\"", "/f.toml:worker.lease must be a number, not \"long\"."),
        ("[worker]\nlease = 3\nrenew-interval = 2", "/f.toml:worker.renew-interval must be 0.1 seconds"),
        ("[run]\nattempts = 0", "/f.toml:run.attempts must be 1 to 100, not 0."),
        ("redis = \"foo\"", "/f.toml:redis: A Redis URL must look like"),
    ])
    func aFaultIsReportedWithItsPlace(_ toml: String, _ words: String) throws {
        let fault = try error(of: toml)
        #expect(fault?.code == 78 && fault?.message.contains(words) == true, "\(fault?.message ?? "no error")")
    }

    @Test func theExampleOfThePackageIsValidWithAllItsLines() throws {
        let check = ConfigurationCheck(MegatonCommand.self, rules: .program)
        let text = try Repository.text("deploy/megaton.toml")
        try check.check(try file(text))
        #expect(try file(text).isEmpty, "as installed, it sets nothing")
        // The commented lines are `#key = value`, and prose has a space behind the mark.
        let lines = text.split(separator: "\n").map { line in
            line.hasPrefix("#") && !line.hasPrefix("# ") ? line.dropFirst() : line
        }
        let whole = lines.joined(separator: "\n").replacing("/srv/thumbs", with: "/tmp")
        let read = try file(whole)
        #expect(read.sections.count > 3)
        try check.check(read)
    }

    @Test func aFileThatEveryUserMayChangeIsRefused() throws {
        let directory = try TestDirectory()
        let path = try directory.write(Data("lease = 5\n".utf8), to: "f.toml")
        func read(_ mode: Int) throws -> ConfigurationFile? {
            try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: path)
            return try ConfigurationFile.read(path, isRequired: true)
        }
        #expect(try read(0o644)?.isReadableByAll == true)
        #expect(try read(0o660)?.isReadableByAll == false)
        let error = #expect(throws: CLIError.self) { try read(0o646) }
        #expect(error?.code == 78 && error?.message.contains("chmod o-w") == true)
    }

    @Test func onlyANamedFileMustBeThere() throws {
        let directory = try TestDirectory()
        let missing = directory.path + "/missing.toml"
        #expect(try ConfigurationFile.read(missing, isRequired: false) == nil)
        for path in [missing, directory.path] {
            let error = #expect(throws: CLIError.self) { try ConfigurationFile.read(path, isRequired: true) }
            #expect(error?.code == 66 && error?.message.contains(path) == true)
        }
        let large = try directory.write(Data(repeating: UInt8(ascii: "\n"), count: 1024 * 1024 + 1), to: "large.toml")
        #expect(throws: CLIError.self) { try ConfigurationFile.read(large, isRequired: true) }
    }

    @Test func theCurrentDirectoryIsNeverAPlace() {
        let system = "/etc/megaton/megaton.toml"
        func paths(_ environment: [String: String]) -> [String] {
            ConfigurationFile.places(named: nil, environment: environment, system: system).map(\.path)
        }
        #expect(paths([:]) == [system])
        #expect(paths(["HOME": ""]) == [system] && paths(["HOME": "."]) == [system])
        #expect(paths(["HOME": "/h"]) == ["/h/.config/megaton/config.toml", system])
        #expect(paths(["HOME": "/h", "XDG_CONFIG_HOME": "."]) == ["/h/.config/megaton/config.toml", system])
        #expect(paths(["HOME": "/h", "XDG_CONFIG_HOME": "/x"]) == ["/x/megaton/config.toml", system])
    }
}
