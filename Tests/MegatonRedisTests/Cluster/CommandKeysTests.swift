import Testing

@testable import MegatonRedis

@Suite struct CommandKeysTests {
    private func keys(_ words: String) -> [String] {
        let arguments = words.split(separator: " ").map { RedisArgument.string(String($0)) }
        return CommandKeys.keys(of: RedisCommand(arguments)).map(CommandKeys.text)
    }

    @Test(arguments: [
        ("GET a", ["a"]), ("get a", ["a"]), ("SET a b EX 5", ["a"]), ("HSET a f v", ["a"]), ("UNHEARDOF a b", ["a"]),
        ("PING", []), ("TIME", []), ("PUBLISH channel text", []), ("SCRIPT LOAD x", []), ("GET", []), ("", []),
        ("UNLINK a b c", ["a", "b", "c"]), ("EXISTS a b", ["a", "b"]), ("MSET a 1 b 2", ["a", "b"]),
        ("BLPOP a b 5", ["a", "b"]), ("BLPOP a", []), ("BLMOVE a b RIGHT LEFT 5", ["a", "b"]),
        ("RENAME a b", ["a", "b"]),
        ("EVALSHA digest 2 a b c d", ["a", "b"]), ("EVALSHA digest 0 a", []), ("EVALSHA digest 9 a", ["a"]),
        ("EVALSHA digest x a", []), ("EVALSHA digest -1 a", []), ("EVALSHA digest", []),
        ("BLMPOP 0 2 a b LEFT", ["a", "b"]), ("ZINTERSTORE d 2 a b", ["d", "a", "b"]), ("MEMORY USAGE a", ["a"]),
        ("XREAD BLOCK 5 STREAMS a b $ $", ["a", "b"]), ("XREAD BLOCK 5", []),
    ])
    func areThoseOfTheCommand(_ command: String, _ expected: [String]) {
        #expect(keys(command) == expected)
    }

    @Test func keysOfTwoSlotsAreAnErrorThatNamesBoth() throws {
        #expect(try CommandKeys.slot(of: ["UNLINK", "{t}a", "{t}b"]) == HashSlot.of("t"))
        #expect(try CommandKeys.slot(of: ["PING"]) == nil)
        #expect {
            try CommandKeys.slot(of: ["UNLINK", "one", "two"])
        } throws: { error in
            let error = error as? RedisError
            return error?.code == .crossSlot && error?.message.contains("\"one\"") == true
                && error?.message.contains("\"two\"") == true && error?.message.contains("UNLINK") == true
        }
    }

    @Test func aPipelineIsDividedIntoCommandsAndTransactions() throws {
        let units = try ClusterUnit.units(of: [
            ["TIME"], ["GET", "{a}1"], ["PUBLISH", "c", "m"], ["MULTI"], ["HSET", "{b}1", "f", "v"],
            ["PEXPIRE", "{b}1", "5"], ["EXEC"], ["BLPOP", "{c}1", "1"],
        ])
        #expect(units.map(\.range) == [0..<1, 1..<2, 2..<3, 3..<7, 7..<8])
        let (a, b, c) = (HashSlot.of("a"), HashSlot.of("b"), HashSlot.of("c"))
        #expect(units.map(\.slot) == [a, a, a, b, c])
        #expect(units.map(\.isBlocking) == [false, false, false, false, true])
        #expect(try ClusterUnit.units(of: [["PING"], ["TIME"]]).map(\.slot) == [nil, nil])
        // A transaction that is never executed.
        #expect(try ClusterUnit.units(of: [["MULTI"], ["GET", "a"]]).map(\.range) == [0..<2])
        #expect {
            try ClusterUnit.units(of: [["MULTI"], ["GET", "a"], ["GET", "b"], ["EXEC"]])
        } throws: { ($0 as? RedisError)?.code == .crossSlot }
    }
}
