package import Foundation
package import MegatonCore
internal import MegatonPipeline

/// Decides whether an output may replace an existing file.
struct ReplacementRule {
    private let replacement: Job.Replacement
    private let source: String?

    /// - Parameter source: path of the file from which the outputs are made; it is never replaced, under any name.
    init(_ replacement: Job.Replacement, source: String?) {
        self.replacement = replacement
        self.source = source
    }

    /// Checks the existing file in the place of an output, if there is one.
    ///
    /// - Parameters:
    ///   - name: name of the file, if it differs from the output's.
    ///   - data: the output.
    /// - Throws: `.outputExists`, with the path of the file and the reason; `.outputFailed` if it is a directory.
    func check(
        _ place: FileAccess.OutputDirectory,
        named name: String? = nil,
        for data: Data
    ) throws(ImagePipeline.Error) {
        let name = name ?? place.name
        var info = stat()
        guard fstatat(place.descriptor, name, &info, AT_SYMLINK_NOFOLLOW) == 0 else { return }
        if info.st_mode & S_IFMT == S_IFDIR {
            // An exchange of names would move the directory away.
            throw ImagePipeline.Error(.outputFailed, "\(place.path)/\(place.name) is a directory.")
        }
        if isSource(place, named: name) {
            throw refusal(of: place, "is the source of the job, and a source is never replaced")
        }
        switch replacement {
        case .all: return
        case .nothing:
            throw refusal(
                of: place,
                "has other content, and the job may not replace it (\"replace\": \"none\", which megaton run and "
                    + "submit set if the file is one of their inputs, or may be one)"
            )
        case .images:
            let type = AssetType(data)
            guard let obstacle = Self.obstacle(in: place.descriptor, named: name, info: info, type: type) else {
                return
            }
            throw refusal(
                of: place,
                "\(obstacle), and is not replaced. Name another output, or replace it with --overwrite "
                    + "(\"replace\": \"all\" in a job)"
            )
        }
    }

    private func refusal(of place: FileAccess.OutputDirectory, _ reason: String) -> ImagePipeline.Error {
        ImagePipeline.Error(.outputExists, "\(place.path)/\(place.name) \(reason).")
    }

    /// Whether the file is the job's source. Compares device and inode, so that links, another spelling of the path,
    /// and a file system that ignores case do not hide it.
    private func isSource(_ place: FileAccess.OutputDirectory, named name: String) -> Bool {
        guard let source else { return false }
        var (read, written) = (stat(), stat())
        guard stat(source, &read) == 0 else { return false }
        for flags in [0, AT_SYMLINK_NOFOLLOW] where fstatat(place.descriptor, name, &written, flags) == 0 {
            if read.st_dev == written.st_dev && read.st_ino == written.st_ino { return true }
        }
        // The source itself may be a link.
        guard lstat(source, &read) == 0, fstatat(place.descriptor, name, &written, AT_SYMLINK_NOFOLLOW) == 0 else {
            return false
        }
        return read.st_dev == written.st_dev && read.st_ino == written.st_ino
    }

    /// The reason why the file is not an image of the output's type; nil if it is one.
    fileprivate static func obstacle(
        in directory: Int32,
        named name: String,
        info: stat,
        type: AssetType?
    ) -> String? {
        let wanted = type.map(\.description) ?? "image"
        if info.st_mode & S_IFMT == S_IFLNK { return "is a symbolic link, not a file of type \(wanted)" }
        guard info.st_mode & S_IFMT == S_IFREG else { return "is not a regular file" }
        // Opened without blocking: a pipe may have replaced the file.
        let descriptor = openat(directory, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0)
        guard descriptor >= 0 else {
            return "cannot be read (\(String(cString: strerror(errno)))), so that its type is unknown"
        }
        defer { close(descriptor) }
        var head = [UInt8](repeating: 0, count: headSize)
        let count = read(descriptor, &head, head.count)
        // After a power cut, files that were written shortly before may be empty, or have NULs in place of their bytes:
        // they are made again.
        if count >= 0, head.prefix(count).allSatisfy({ $0 == 0 }), FileAccess.isBlank(descriptor) { return nil }
        guard count >= 0 else {
            return "cannot be read (\(String(cString: strerror(errno)))), so that its type is unknown"
        }
        guard let found = AssetType(Data(head.prefix(count))) else {
            return "exists and is not a file of type \(wanted)"
        }
        if found == type { return nil }
        return "exists and is a file of type \(found), not \(wanted)"
    }

    /// Number of bytes that identify a type.
    private static let headSize = 512
}

extension Job.Replacement {
    /// Whether a job with this rule replaces a file that exists now, for a plan. Asks the file system, and so blocks.
    ///
    /// - Parameters:
    ///   - path: absolute.
    ///   - info: of the file itself, even if it is a link.
    ///   - type: of the output; nil if that is not known, and the type of the file is not compared.
    package func permitsReplacing(_ path: String, _ info: stat, with type: AssetType?) -> Bool {
        let kind = info.st_mode & S_IFMT
        switch self {
        case .nothing: return false
        case .all: return kind != S_IFDIR
        case .images:
            guard let type else { return kind == S_IFREG }
            return ReplacementRule.obstacle(in: AT_FDCWD, named: path, info: info, type: type) == nil
        }
    }
}
