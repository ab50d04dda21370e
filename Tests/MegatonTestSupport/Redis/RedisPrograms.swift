import Foundation

/// The server with which tests run, and its client.
///
/// Redis from Debian, or Valkey from the tests' environment of Python if the variable MEGATON_TEST_SERVER is `valkey`:
/// `MEGATON_TEST_SERVER=valkey ./scripts/test --filter MegatonRedisTests`.
public enum RedisPrograms {
    /// The environment of Python that `./scripts/test` makes.
    private static let environment = Repository.root + "/.build/venv"
    private static let valkey = "\(environment)/bin/valkey-server"

    /// Whether `./scripts/test` could install Valkey.
    public static let hasValkey = FileManager.default.isExecutableFile(atPath: valkey)
    /// Whether Valkey was chosen for all tests.
    public static let usesValkey = ProcessInfo.processInfo.environment["MEGATON_TEST_SERVER"] == "valkey"

    /// Path of the server that was chosen. If Valkey was chosen and is not installed, its tests fail to start it.
    public static let server = usesValkey ? valkey : "/usr/bin/redis-server"
    /// Path of Valkey's server, whether it was chosen or not.
    public static let valkeyServer = valkey
    /// redis-cli speaks to both.
    public static let client = "/usr/bin/redis-cli"
}
