import Foundation
import TOMLKit

/// A value of a configuration file.
package enum SettingValue: Equatable, Sendable {
    case text(String)
    case whole(Int)
    case number(Double)
    case flag(Bool)
    case list([SettingValue])
    /// A kind of value that no option has, such as a date.
    case other(String)

    /// The kind with its article, for messages.
    var kind: String {
        switch self {
        case .text: "a string"
        case .whole, .number: "a number"
        case .flag: "a boolean"
        case .list: "an array"
        case .other(let name): name
        }
    }

    /// The value as it would be typed; nil if it is not a single string or number.
    var argument: String? {
        switch self {
        case .text(let text): text
        case .whole(let number): String(number)
        case .number(let number): String(number)
        case .flag, .list, .other: nil
        }
    }
}

/// A file with values of options, read once.
package struct ConfigurationFile: Sendable {
    package let path: String
    /// The values of each section by their keys; those above all sections are in "".
    let sections: [String: [String: SettingValue]]
    /// Whether users other than the owner and the group may read it.
    let isReadableByAll: Bool

    /// Whether the file has neither keys nor sections.
    var isEmpty: Bool { sections.count == 1 && sections[""]?.isEmpty == true }

    /// Maximum size, bytes.
    private static let maximumSize = 1024 * 1024
    /// Maximum depth of sections; those of commands have two names.
    private static let maximumDepth = 8

    /// Reads a file only once, as it may be a pipe.
    ///
    /// - Parameter isRequired: whether the file was named; otherwise it may be missing.
    /// - Returns: nil if the file is missing and may be.
    /// - Throws: `CLIError` 66 if the file cannot be read, 78 if every user may change it or if it is not TOML.
    static func read(_ path: String, isRequired: Bool) throws(CLIError) -> ConfigurationFile? {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else {
            let code = errno
            var info = stat()
            // Also a file that is hidden, as homes are from services (ProtectHome=): a file that is there and may not
            // be read is an error.
            if !isRequired, stat(path, &info) != 0 { return nil }
            throw unreadable(path, String(cString: strerror(code)), isRequired: isRequired)
        }
        defer { close(descriptor) }
        var info = stat()
        guard fstat(descriptor, &info) == 0, info.st_mode & S_IFMT != S_IFDIR else {
            throw unreadable(path, "it is a directory", isRequired: isRequired)
        }
        let isFile = info.st_mode & S_IFMT == S_IFREG
        if isFile && info.st_mode & S_IWOTH != 0 {
            throw invalid("\(path) may be changed by every user, and is not read; run chmod o-w on it.")
        }
        guard let data = content(of: descriptor) else {
            throw unreadable(path, String(cString: strerror(errno)), isRequired: isRequired)
        }
        guard data.count <= maximumSize else { throw invalid("\(path) is larger than 1 MiB.") }
        return try ConfigurationFile(path: path, data: data, isReadableByAll: isFile && info.st_mode & S_IROTH != 0)
    }

    /// - Throws: `CLIError` 78 with the line, if the data is not TOML.
    init(path: String, data: Data, isReadableByAll: Bool = false) throws(CLIError) {
        // The parser is of C, in which a text ends with its first zero byte.
        guard let text = String(validating: data, as: UTF8.self), !data.contains(0) else {
            throw Self.invalid("\(path) is not text in UTF-8.")
        }
        let table: TOMLTable
        do {
            table = try TOMLTable(string: text)
        } catch let error as TOMLParseError {
            throw Self.invalid("\(path) is not TOML: line \(error.source.begin.line): \(error.description).")
        } catch {
            throw Self.invalid("\(path) is not TOML: \(error).")
        }
        var sections: [String: [String: SettingValue]] = ["": [:]]
        Self.add(table, [], to: &sections)
        self.path = path
        self.sections = sections
        self.isReadableByAll = isReadableByAll
    }

    private static func add(
        _ table: TOMLTable,
        _ section: [String],
        to sections: inout [String: [String: SettingValue]]
    ) {
        let name = section.joined(separator: ".")
        if sections[name] == nil { sections[name] = [:] }
        for key in table.keys {
            guard let value = table[key] else { continue }
            if let inner = value.table, section.count < maximumDepth {
                add(inner, section + [key], to: &sections)
            } else {
                sections[name]?[key] = setting(value)
            }
        }
    }

    private static func setting(_ value: any TOMLValueConvertible) -> SettingValue {
        if let text = value.string { return .text(text) }
        if let flag = value.bool { return .flag(flag) }
        if let number = value.int { return .whole(number) }
        if let number = value.double { return .number(number) }
        // Lists within lists are of no option, and end here.
        guard let array = value.array else { return .other("a date, time or table") }
        return .list(array.map { $0.array == nil ? setting($0) : .other("an array") })
    }

    private static func content(of descriptor: Int32) -> Data? {
        var data = Data()
        var buffer = [UInt8](repeating: 0, count: 65536)
        while data.count <= maximumSize {
            let count = Foundation.read(descriptor, &buffer, buffer.count)
            if count < 0 && errno == EINTR { continue }
            if count < 0 { return nil }
            if count == 0 { break }
            data.append(contentsOf: buffer[..<count])
        }
        return data
    }

    private static func unreadable(_ path: String, _ reason: String, isRequired: Bool) -> CLIError {
        let hint = isRequired ? "" : " --config /dev/null does without it."
        return CLIError(code: 66, message: "the configuration file \(path) cannot be read: \(reason).\(hint)")
    }

    static func invalid(_ message: String) -> CLIError { CLIError(code: 78, message: message) }

    // MARK: - Places

    /// The files that apply, those that rank higher first. The current directory has none: a program must not do
    /// other things because it was started in a directory of a stranger.
    ///
    /// - Parameters:
    ///   - named: the file of `--config`.
    ///   - system: the file of the whole system.
    static func places(
        named: String?,
        environment: [String: String],
        system: String
    ) -> [(path: String, isRequired: Bool)] {
        let variable = environment[ConfigurationRules.fileVariable] ?? ""
        if let path = named ?? (variable.isEmpty ? nil : variable) { return [(path, true)] }
        // A relative path in these variables is invalid.
        let directories = [(environment["XDG_CONFIG_HOME"], ""), (environment["HOME"], "/.config")]
        let home = directories.first { $0.0?.hasPrefix("/") == true }.map { "\($0.0 ?? "")\($0.1)" }
        return (home.map { [("\($0)/megaton/config.toml", false)] } ?? []) + [(system, false)]
    }

    static func readAll(_ places: [(path: String, isRequired: Bool)]) throws(CLIError) -> [ConfigurationFile] {
        var files: [ConfigurationFile] = []
        for place in places {
            if let file = try read(place.path, isRequired: place.isRequired) { files.append(file) }
        }
        return files
    }
}
