internal import MegatonRedis

/// Lua scripts of the shared cache; the first lines of each file are its contract. No script changes the state of a
/// newer flight of the same key.
enum FlightScripts {
    static let begin = RedisScript(name: "beginFlight", file: PackageResources.beginFlight_lua)
    static let renew = RedisScript(name: "renewFlight", file: PackageResources.renewFlight_lua)
    static let finish = RedisScript(name: "finishFlight", file: PackageResources.finishFlight_lua)
    static let fail = RedisScript(name: "failFlight", file: PackageResources.failFlight_lua)
    static let look = RedisScript(name: "lookUpEntry", file: PackageResources.lookUpEntry_lua)
    static let drop = RedisScript(name: "dropEntry", file: PackageResources.dropEntry_lua)
    static let remember = RedisScript(name: "rememberFailure", file: PackageResources.rememberFailure_lua)

    static let all = [begin, renew, finish, fail, look, drop, remember]
}
