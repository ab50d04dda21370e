internal import Foundation
package import MegatonPipeline

/// Writes results to files beneath allowed roots, each whole or not at all.
///
/// The bytes go to a file without a name (`O_TMPFILE`), which gets its name when it is complete, so that not even `kill
/// -9` leaves a half-written file. If the file system does not support that, a hidden temporary file is renamed. Files
/// are not synced to disk: after a power cut the newest may be missing, and a further run makes them again.
package struct FileOutput: Sendable {
    private let access: FileAccess
    private let threads: ThreadPool

    /// - Parameter threads: run the writes, which block.
    package init(access: FileAccess, threads: ThreadPool) {
        self.access = access
        self.threads = threads
    }

    /// Writes all of the files, or none if one of them would replace a file that must stay.
    ///
    /// - Parameters:
    ///   - replacement: files that may be replaced.
    ///   - source: path of the file from which the outputs were made; it is never replaced.
    ///   - versions: of the files, in their order; nil for those without one.
    /// - Returns: paths of existing files that stay, as their originals are newer.
    /// - Throws: `.forbidden`, `.outputExists`, `.diskFull` or `.outputFailed`, or `.cancelled`.
    @discardableResult
    func write(
        _ files: [(path: String, data: Data)],
        replacing replacement: Job.Replacement = .all,
        source: String? = nil,
        versions: [OutputVersion?] = []
    ) async throws(ImagePipeline.Error) -> [String] {
        do {
            return try await threads.run { [access] in
                let rule = ReplacementRule(replacement, source: source)
                var open: [(place: FileAccess.OutputDirectory, data: Data, version: OutputVersion?)] = []
                defer { for output in open { close(output.place.descriptor) } }
                var kept: [String] = []
                for (index, file) in files.enumerated() {
                    let version = index < versions.count ? versions[index] : nil
                    let place = try access.openOutput(at: file.path)
                    if Self.has(file.data, at: place, version: version) {
                        close(place.descriptor)
                    } else if OutputVersion.isOutdated(version, at: place) {
                        close(place.descriptor)
                        kept.append(file.path)
                    } else {
                        open.append((place, file.data, version))
                        try rule.check(place, for: file.data)
                    }
                }
                for output in open {
                    let isWritten = try Self.write(output.data, to: output.place, rule: rule, version: output.version)
                    if !isWritten { kept.append("\(output.place.path)/\(output.place.name)") }
                }
                return kept
            }
        } catch let error as ImagePipeline.Error {
            throw error
        } catch {
            throw ImagePipeline.Error(.cancelled, "Writing the outputs was cancelled.")
        }
    }

    /// Whether the file already has exactly these bytes. The comparison costs a tenth of a write, and a batch that is
    /// repeated, or names a source several times, finds most of its outputs unchanged.
    private static func has(_ data: Data, at place: FileAccess.OutputDirectory, version: OutputVersion?) -> Bool {
        let descriptor = openat(place.descriptor, place.name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0)
        guard descriptor >= 0 else { return false }
        defer { close(descriptor) }
        var info = stat()
        guard fstat(descriptor, &info) == 0, info.st_mode & S_IFMT == S_IFREG, Int(info.st_size) == data.count else {
            return false
        }
        return data.withUnsafeBytes { bytes in
            var block = [UInt8](repeating: 0, count: min(bytes.count, 64 * 1024))
            var offset = 0
            while offset < bytes.count {
                let count = read(descriptor, &block, block.count)
                if count < 0 && errno == EINTR { continue }
                guard count > 0, offset + count <= bytes.count,
                    memcmp(block, bytes.baseAddress! + offset, count) == 0
                else { return false }
                offset += count
            }
            // The origin has confirmed these bytes: a job with an older original must not replace them either.
            let present = OutputVersion(of: descriptor)
            if let version, present != version, !version.isOutdated(by: present) { version.set(of: descriptor) }
            return true
        }
    }

    /// O_TMPFILE of open(2), a macro that Swift does not import.
    private static let unnamedFile = O_DIRECTORY | 0o20000000

    /// - Returns: false if an existing file stays, as its original is newer.
    private static func write(
        _ data: Data,
        to place: FileAccess.OutputDirectory,
        rule: ReplacementRule,
        version: OutputVersion?
    ) throws(ImagePipeline.Error) -> Bool {
        // A file without a name needs no cleanup. EOPNOTSUPP, EISDIR and EINVAL mean that the file system has none.
        let unnamed = openat(place.descriptor, ".", O_WRONLY | O_CLOEXEC | unnamedFile, 0o666)
        if unnamed >= 0 {
            defer { close(unnamed) }
            try fill(unnamed, with: data, at: place)
            version?.set(of: unnamed)
            let source = "/proc/self/fd/\(unnamed)"
            if linkat(AT_FDCWD, source, place.descriptor, place.name, AT_SYMLINK_FOLLOW) == 0 { return true }
            // A link cannot replace a file: an existing one is replaced by a rename from a second name.
            guard errno == EEXIST else { throw error("cannot be given its final name", at: place) }
            let temporary = temporaryName()
            guard linkat(AT_FDCWD, source, place.descriptor, temporary, AT_SYMLINK_FOLLOW) == 0 else {
                throw error("cannot be given its final name", at: place)
            }
            return try rename(temporary, at: place, for: data, rule: rule, version: version)
        }
        guard errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL else {
            throw error("cannot be written", at: place)
        }
        let temporary = temporaryName()
        let descriptor = openat(place.descriptor, temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o666)
        guard descriptor >= 0 else { throw error("cannot be written", at: place) }
        do throws(ImagePipeline.Error) {
            var isOpen = true
            defer { if isOpen { close(descriptor) } }
            try fill(descriptor, with: data, at: place)
            version?.set(of: descriptor)
            // File systems of networks report here that a disk or a quota is full (close(2)).
            isOpen = false
            if close(descriptor) != 0, errno != EINTR { throw error("cannot be written", at: place) }
        } catch {
            unlinkat(place.descriptor, temporary, 0)
            throw error
        }
        return try rename(temporary, at: place, for: data, rule: rule, version: version)
    }

    /// The reason why a directory takes no file; nil if it does, or if the reason may pass. A file is opened as for an
    /// output, without a name if the file system supports that, and is not kept. Blocks.
    package static func obstacle(in directory: String) -> String? {
        let unnamed = open(directory, O_WRONLY | O_CLOEXEC | unnamedFile, 0o666)
        if unnamed >= 0 {
            close(unnamed)
            return nil
        }
        var code = errno
        if code == EOPNOTSUPP || code == EISDIR || code == EINVAL {
            let temporary = "\(directory)/\(temporaryName())"
            let descriptor = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o666)
            code = errno
            if descriptor >= 0 {
                close(descriptor)
                unlink(temporary)
                return nil
            }
        }
        return transientCodes.contains(code) ? nil : String(cString: strerror(code))
    }

    private static func temporaryName() -> String { ".megaton-\(UInt64.random(in: .min ... .max)).tmp" }

    /// Renames the temporary file to its final name. The rule was checked before, but another process may have created
    /// a file since. So the names are exchanged first, the replaced file is checked under the temporary name, and if it
    /// must stay, the names are exchanged back.
    ///
    /// - Returns: false if the existing file stays, as its original is newer.
    private static func rename(
        _ temporary: String,
        at place: FileAccess.OutputDirectory,
        for data: Data,
        rule: ReplacementRule,
        version: OutputVersion?
    ) throws(ImagePipeline.Error) -> Bool {
        if exchange(temporary, at: place) {
            if OutputVersion.isOutdated(version, at: place, named: temporary) {
                _ = exchange(temporary, at: place)
                unlinkat(place.descriptor, temporary, 0)
                return false
            }
            do throws(ImagePipeline.Error) {
                try rule.check(place, named: temporary, for: data)
            } catch {
                _ = exchange(temporary, at: place)
                unlinkat(place.descriptor, temporary, 0)
                throw error
            }
            unlinkat(place.descriptor, temporary, 0)
            return true
        }
        // No file exists, or the file system cannot exchange names: the final name is checked right before the rename.
        if OutputVersion.isOutdated(version, at: place) {
            unlinkat(place.descriptor, temporary, 0)
            return false
        }
        do throws(ImagePipeline.Error) {
            try rule.check(place, for: data)
        } catch {
            unlinkat(place.descriptor, temporary, 0)
            throw error
        }
        guard renameat(place.descriptor, temporary, place.descriptor, place.name) == 0 else {
            let failure = error("cannot be given its final name", at: place)
            unlinkat(place.descriptor, temporary, 0)
            throw failure
        }
        return true
    }

    /// Exchanges the names of two files atomically.
    ///
    /// - Returns: false if one of them is missing, or the file system or the C library has no such operation.
    private static func exchange(_ temporary: String, at place: FileAccess.OutputDirectory) -> Bool {
        renameat2?(place.descriptor, temporary, place.descriptor, place.name, renameExchange) == 0
    }

    /// RENAME_EXCHANGE of rename(2).
    private static let renameExchange: UInt32 = 2

    /// Looked up by name, as Swift's module of the C library does not declare it.
    private static let renameat2:
        (@convention(c) @Sendable (Int32, UnsafePointer<CChar>, Int32, UnsafePointer<CChar>, UInt32) -> Int32)? =
            dlsym(nil, "renameat2").map { symbol in
                unsafeBitCast(
                    symbol,
                    to: (@convention(c) @Sendable (
                        Int32, UnsafePointer<CChar>, Int32, UnsafePointer<CChar>, UInt32
                    ) -> Int32).self
                )
            }

    private static func fill(
        _ descriptor: Int32,
        with data: Data,
        at place: FileAccess.OutputDirectory
    ) throws(ImagePipeline.Error) {
        let isComplete = data.withUnsafeBytes { bytes in
            var offset = 0
            while offset < bytes.count {
                let count = Foundation.write(descriptor, bytes.baseAddress! + offset, bytes.count - offset)
                if count < 0 && errno == EINTR { continue }
                if count <= 0 { return false }
                offset += count
            }
            return true
        }
        guard isComplete else { throw error("cannot be written", at: place) }
    }

    /// A full disk stays full for longer than a job waits, and each attempt would render before it fails again; the
    /// operator repeats failed jobs once there is room. A directory without write permission keeps failing too.
    private static let transientCodes = [EIO, EMFILE, ENFILE]

    private static func error(_ what: String, at place: FileAccess.OutputDirectory) -> ImagePipeline.Error {
        let code = errno
        var error = ImagePipeline.Error(
            [ENOSPC, EDQUOT].contains(code) ? .diskFull : .outputFailed,
            "\(place.path)/\(place.name) \(what): \(String(cString: strerror(code))).",
            isRetryable: transientCodes.contains(code)
        )
        error.isOfStorage = FileAccess.storageCodes.contains(code)
        return error
    }
}
