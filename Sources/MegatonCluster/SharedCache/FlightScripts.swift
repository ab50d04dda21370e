internal import MegatonRedis

/// Lua scripts of the shared cache; the first lines of each file are its contract. No script changes the state of a
/// newer flight of the same key.
enum FlightScripts {
    static let beginFlight = RedisScript(name: "beginFlight", file: PackageResources.beginFlight_lua)
    static let renewFlight = RedisScript(name: "renewFlight", file: PackageResources.renewFlight_lua)
    static let finishFlight = RedisScript(name: "finishFlight", file: PackageResources.finishFlight_lua)
    static let confirmFlight = RedisScript(name: "confirmFlight", file: PackageResources.confirmFlight_lua)
    static let failFlight = RedisScript(name: "failFlight", file: PackageResources.failFlight_lua)
    static let lookUpEntry = RedisScript(name: "lookUpEntry", file: PackageResources.lookUpEntry_lua)
    static let dropEntry = RedisScript(name: "dropEntry", file: PackageResources.dropEntry_lua)
    static let rememberFailure = RedisScript(name: "rememberFailure", file: PackageResources.rememberFailure_lua)
    static let discardEntry = RedisScript(name: "discardEntry", file: PackageResources.discardEntry_lua)
    static let touchOriginal = RedisScript(name: "touchOriginal", file: PackageResources.touchOriginal_lua)
    static let takeOverFlight = RedisScript(name: "takeOverFlight", file: PackageResources.takeOverFlight_lua)
    static let supersedeEntry = RedisScript(name: "supersedeEntry", file: PackageResources.supersedeEntry_lua)

    static let all = [
        beginFlight, renewFlight, finishFlight, confirmFlight, failFlight, lookUpEntry, dropEntry, rememberFailure,
        discardEntry, touchOriginal, takeOverFlight, supersedeEntry,
    ]
}
