internal import Foundation
internal import MegatonPipeline
internal import MegatonRedis

/// Settings that a coordinator publishes when it begins to lead, and with which a worker leads that takes over.
struct LeaderSettings: Sendable {
    var presets: [String: [Rendition]] = [:]
    /// The webhooks that jobs may name; nil if none can be sent.
    var webhooks: WebhookRules?
}

extension JobQueue {
    /// Publishes the settings of the leader; see the script `publish`.
    ///
    /// - Parameter name: name of the leader.
    /// - Throws: an error of the server, NOTLEADER, if another process leads.
    func publish(_ settings: LeaderSettings, name: String, epoch: Int) async throws(RedisError) {
        // A script, as a full Redis refuses SET, and could not be worked off then.
        try await redis.run(
            QueueScripts.publish,
            keys: [keys.leader, keys.epoch, keys.presets, keys.webhookRules],
            arguments: [
                .string(name), .int(epoch), .string(WireJSON.text(settings.presets)),
                .string(settings.webhooks.map { WireJSON.text($0) } ?? ""),
            ]
        )
    }

    /// The settings of the last coordinator; empty if there was none.
    func publishedSettings() async throws -> LeaderSettings {
        var settings = LeaderSettings()
        if let json = try await redis.send(["GET", .string(keys.presets)]).string {
            settings.presets = try JSONDecoder().decode([String: [Rendition]].self, from: Data(json.utf8))
        }
        if let json = try await redis.send(["GET", .string(keys.webhookRules)]).string {
            settings.webhooks = try JSONDecoder().decode(WebhookRules.self, from: Data(json.utf8))
        }
        return settings
    }
}
