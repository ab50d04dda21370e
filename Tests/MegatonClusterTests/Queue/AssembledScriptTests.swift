import Foundation
import MegatonRedis
import MegatonTestSupport
import Testing

@testable import MegatonCluster

/// The scripts as Redis receives them: with the functions of their preludes in the places that a mark may choose.
///
/// `luacheck` reads the files by themselves, and must believe that each name of a prelude is defined.
@Suite(.timeLimit(.minutes(1))) struct AssembledScriptTests {
    private static let scripts = QueueScripts.all + HostScripts.all + FlightScripts.all

    /// The values that Redis gives to scripts.
    private static let givenNames = ["KEYS", "ARGV", "redis", "cjson", "cmsgpack", "bit", "struct"]

    @Test func eachNameIsDefinedAboveItsUse() async throws {
        let directory = try TestDirectory()
        let files = try Self.scripts.map { script in
            // Lua itself would not accept the line with the flags.
            let code = script.source.drop { $0 != "\n" }
            return try directory.write(Data(code.utf8), to: "\(script.name).lua")
        }
        let options = ["--no-config", "--no-color", "--std", "lua51", "--only", "1", "--read-globals"]
        let check = try ProgramUnderTest(
            program: "/usr/bin/luacheck",
            arguments: options + Self.givenNames + ["--formatter", "plain", "--"] + files
        )
        let ending = await check.ending()
        #expect(ending.code == 0, "\(ending.output)\(ending.errors)")
    }
}
