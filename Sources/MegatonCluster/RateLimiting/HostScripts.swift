internal import MegatonRedis

/// Lua scripts of `HostRateLimiter`; the first lines of each file are its contract. The state of a host is described in
/// `hostPrelude.lua`.
enum HostScripts {
    static let acquirePermit = script("acquirePermit", PackageResources.acquirePermit_lua)
    static let renewPermit = script("renewPermit", PackageResources.renewPermit_lua)
    static let releasePermit = script("releasePermit", PackageResources.releasePermit_lua)

    static let noteAnswer = script("noteAnswer", PackageResources.noteAnswer_lua)

    static let all = [acquirePermit, renewPermit, releasePermit, noteAnswer]

    private static let prelude = LuaPrelude(source: String(decoding: PackageResources.hostPrelude_lua, as: UTF8.self))

    private static func script(_ name: String, _ file: [UInt8]) -> RedisScript {
        RedisScript(name: name, file: file, prelude: prelude)
    }
}
