import Foundation
import MegatonTestSupport
import Testing

@testable import MegatonCommandLine

/// The directory of the private Redis' cache.
@Suite(.timeLimit(.minutes(2))) struct CacheDirectoryTests {
    /// Fault: the home directory of the password database was used, whatever `HOME` was.
    @Test func theCacheIsInTheDirectoryThatTheEnvironmentNames() throws {
        let directory = try TestDirectory()
        let path = directory.path
        #expect(try EmbeddedRedis.persistentPath(["HOME": path]) == "\(path)/.cache/megaton")
        for none in ["", "relative"] {
            let environment = ["HOME": path, "XDG_CACHE_HOME": none]
            #expect(try EmbeddedRedis.persistentPath(environment) == "\(path)/.cache/megaton")
        }
        #expect(try EmbeddedRedis.persistentPath(["HOME": path, "XDG_CACHE_HOME": "\(path)/x"]) == "\(path)/x/megaton")
        for name in [".cache/megaton", "x/megaton"] {
            #expect(FileManager.default.fileExists(atPath: "\(path)/\(name)"))
        }
    }

    /// Fault: a cache is optional, but a run without a directory for it ended with exit code 74.
    @Test func aRunWithoutACacheDirectoryWarnsAndDoesItsWork() async throws {
        let home = try RunTests.Home()
        try home.directory.write(TestImage.quarters(width: 32, height: 32), to: "in/a.png")
        let file = try home.directory.write(Data(), to: "file")
        let run = try ProgramUnderTest.megaton(
            ["run", "in", "--output", home.output, "--workers", "1"],
            environment: ["XDG_CACHE_HOME": file],
            directory: home.directory.path
        )
        let ending = await run.ending()
        #expect(ending.code == 0, "\(ending.errors)")
        let warning = "the cache directory \(file)/megaton cannot be created"
        #expect(ending.errors.contains(warning) && ending.errors.contains("XDG_CACHE_HOME"), "\(ending.errors)")
        #expect(home.outputs == ["a-256x256.jpg"])
    }

    /// Fault: every run failed until the user found and deleted the file.
    @Test(arguments: ["garbage\n", "REDIS0003 but cut", String(repeating: "no Redis at all ", count: 100)])
    func aDamagedCacheIsSetAside(_ content: String) async throws {
        let home = try RunTests.Home()
        try home.directory.write(TestImage.quarters(width: 32, height: 32), to: "in/a.png")
        let file = try home.directory.write(Data(content.utf8), to: "cache/megaton/cache.rdb")
        let ending = try await home.run(["in", "--workers", "1"])
        #expect(ending.code == 0, "\(ending.errors)")
        #expect(ending.errors.contains("which is now \(file).damaged; this run begins with an empty one"))
        #expect(FileManager.default.contents(atPath: file + ".damaged") == Data(content.utf8))
        let again = try await home.run(["in", "--workers", "1"])
        #expect(again.code == 0 && !again.errors.contains("damaged"), "\(again.errors)")
        #expect(try home.summary(again)["cache_hits"] as? Int == 1, "the cache was saved beside the damaged one")
    }

    @Test func onlyFaultsOfTheSavedCacheSetItAside() {
        let time = "1:M 23 Nov 2026 08:00:00.000 #"
        for line in [
            "Short read or OOM loading DB. Unrecoverable error, aborting now.",
            "Wrong signature trying to load DB from file", "Fatal error loading the DB: Invalid argument. Exiting.",
            "Can't handle RDB format version 99",
        ] { #expect(EmbeddedRedis.isDamaged(log: "\(time) \(line)\n")) }
        for log in ["*** FATAL CONFIG FILE ERROR ***\n", "\(time) Failed listening on port 0 (unix)\n", ""] {
            #expect(!EmbeddedRedis.isDamaged(log: log))
        }
    }
}
