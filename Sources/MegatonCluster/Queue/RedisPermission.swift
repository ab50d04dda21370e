internal import MegatonRedis

/// Texts about commands that a user of Redis may not run, and without which a check or a figure is missing.
///
/// Commands are named as in ACL rules: `info`, `config|get`.
package enum RedisPermission {
    /// The commands as Redis documents them: `INFO and CONFIG GET`.
    static func names(_ commands: [String]) -> String {
        let names = commands.map { $0.uppercased().split(separator: "|").joined(separator: " ") }
        guard names.count > 1, let last = names.last else { return names.joined() }
        return names.dropLast().joined(separator: ", ") + " and " + last
    }

    /// A sentence that says how to grant the commands.
    static func remedy(_ commands: [String], for configuration: RedisConfiguration) -> String {
        "To allow it: ACL SETUSER \(configuration.user) \(commands.map { "+" + $0 }.joined(separator: " "))"
    }
}
