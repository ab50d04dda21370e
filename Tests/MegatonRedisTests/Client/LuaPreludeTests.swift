import MegatonRedis
import Testing

/// A script gets the functions of a prelude that it uses, and no others.
@Suite struct LuaPreludeTests {
    private let prelude = LuaPrelude(
        source: """
            -- example: functions for these tests.

            local rate = 2

            -- Uses nothing.
            local function half(n) return n / 2 end

            local function rated(n)
              -- Not half of it.

              return n * rate
            end

            local function nested(n)
              if n > 0 then
                return rated(n)
              end
            end

            """
    )

    @Test func functionsOfFunctionsAreIncludedInTheirOrder() {
        let expected = """
            local rate = 2
            local function rated(n)
              return n * rate
            end
            local function nested(n)
              if n > 0 then
                return rated(n)
              end
            end
            return nested(1)
            """
        #expect(prelude.completed("return nested(1)") == expected)
    }

    @Test func functionsThatOnlyTheEndUsesFollowTheMark() {
        let script = """
            if KEYS[1] then return rated(1) end
            -- prelude: more
            return nested(half(1))
            """
        let expected = """
            local rate = 2
            local function rated(n)
              return n * rate
            end
            if KEYS[1] then return rated(1) end
            local function half(n) return n / 2 end
            local function nested(n)
              if n > 0 then
                return rated(n)
              end
            end
            return nested(half(1))
            """
        #expect(prelude.completed(script) == expected)
    }

    @Test(arguments: [
        "return half(1)", "local h=half;return h(1)", "if x then\n  return half(1)\nend", "return -half(2)",
    ])
    func aFunctionIsFoundWhereverItIsUsed(script: String) {
        #expect(prelude.completed(script) == "local function half(n) return n / 2 end\n" + script)
    }

    @Test(arguments: ["", "return 1", "return halfway(1)", "return half_(1)", "-- half\n  -- nested\nreturn 2"])
    func otherNamesAndCommentsIncludeNothing(script: String) {
        #expect(prelude.completed(script) == script)
    }

    @Test func theFunctionsFollowTheFlagsOfTheScript() {
        let script = RedisScript(
            name: "x",
            file: Array("#!lua flags=no-writes\nreturn half(1)\n".utf8),
            prelude: prelude
        )
        let expected = "#!lua flags=no-writes\nlocal function half(n) return n / 2 end\nreturn half(1)\n"
        #expect(script.source == expected)
    }
}
