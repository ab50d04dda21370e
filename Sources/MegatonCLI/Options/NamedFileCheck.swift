import Foundation
import MegatonCommandLine

/// Checks the files that options of a configuration file name, by the readers of the commands that take the options.
struct NamedFileCheck {
    private let check: ConfigurationCheck
    /// Options that were checked, by their origin, and that of the preset which the file must have.
    private var checked: Set<[String]> = []
    private(set) var faults: [String] = []
    /// Remarks about secrets that others can read.
    private(set) var remarks: [String] = []

    private static let options = [
        "credentials", "fallback-image", "image-presets", "presets", "tokens", "watermarks", "webhook-key",
    ]

    init(_ check: ConfigurationCheck) { self.check = check }

    /// Reads the files that the options of a configuration file name.
    ///
    /// - Throws: `CLIError` if the options themselves cannot be read.
    mutating func read(_ file: ConfigurationFile) async throws {
        for configured in try check.configured(by: file) {
            for option in Self.options {
                guard let value = configured.values[option], let path = value.texts.first, !Self.isStream(path) else {
                    continue
                }
                let preset = option == "presets" ? configured.values["preset"] : nil
                // A key above the sections is one of several commands.
                guard checked.insert([value.origin, preset?.origin ?? ""]).inserted else { continue }
                do {
                    if try await Self.isExposed(option, path, preset: preset?.texts.first) {
                        remarks.append("\(value.origin): \(path) is readable by others; run chmod 600 on it.")
                    }
                } catch let error as CLIError {
                    let fault = OptionOrigins.renamed(error.message, configured.origins).text
                    if !faults.contains(fault) { faults.append(fault) }
                }
            }
        }
    }

    /// Reads a file as the commands do.
    ///
    /// - Returns: whether it is a secret that others can read.
    /// - Throws: `CLIError` with its fault; never with a secret in it.
    private static func isExposed(_ option: String, _ path: String, preset: String?) async throws -> Bool {
        switch option {
        case "credentials": return try CredentialsFile(path).isExposed
        case "webhook-key": return try WebhookOptions.keys(of: path).isExposed
        // A file that others can read is a fault of its own.
        case "tokens": _ = try TokenReloader.read(path)
        case "fallback-image": _ = try ImageRouteOptions.fallback(in: path)
        case "image-presets": _ = try ImageRouteOptions.presets(in: path)
        case "presets": _ = try PresetFile.load(path, requiring: preset)
        default: _ = try await WorkerOptions.watermarks(in: path)
        }
        return false
    }

    /// Whether a path is that of a pipe or a device, which can be read only once: by the command itself.
    private static func isStream(_ path: String) -> Bool {
        var info = stat()
        guard stat(path, &info) == 0 else { return false }
        return [S_IFIFO, S_IFCHR, S_IFSOCK].contains(info.st_mode & S_IFMT)
    }
}
