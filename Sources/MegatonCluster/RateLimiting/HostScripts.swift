internal import MegatonRedis

/// Lua scripts of `HostRateLimiter`; the first lines of each file are its contract. The state of a host is described in
/// `hostPrelude.lua`.
enum HostScripts {
    static let acquire = script("acquirePermit", PackageResources.acquirePermit_lua)
    static let renew = script("renewPermit", PackageResources.renewPermit_lua)
    static let release = script("releasePermit", PackageResources.releasePermit_lua)

    static let all = [acquire, renew, release]

    private static func script(_ name: String, _ file: [UInt8]) -> RedisScript {
        RedisScript(name: name, file: file, prelude: PackageResources.hostPrelude_lua)
    }
}
