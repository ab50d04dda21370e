// The tables of `meta`: ISO/IEC 14496-12 section 8.11, ISO/IEC 23008-12 section 9.3.
extension HEIFFile {
    /// `iinf`, with one `infe` for each item.
    mutating func readItems(_ content: Range<Int>) throws(ImageError) {
        var reader = ByteReader(bytes, content)
        let version = try reader.number(1)
        try reader.skip(3)
        guard try reader.number(version == 0 ? 2 : 4) > 0 else { return }
        while let box = try reader.box() {
            guard box.type == "infe" else { throw Self.damage("the box \(box.type) is in the wrong place.") }
            let item = try item(box.content)
            guard items[item.id] == nil else { throw Self.damage("item \(item.id) is there twice.") }
            items[item.id] = item
            order.append(item.id)
            if order.count > HEIFBounds.items { throw Self.tooMany("more than \(HEIFBounds.items) items") }
        }
    }

    private func item(_ content: Range<Int>) throws(ImageError) -> Item {
        var reader = ByteReader(bytes, content)
        let version = try reader.number(1)
        try reader.skip(3)
        guard version >= 2 else {
            return Item(id: try reader.number(2), type: FourCC(0), isDeflated: false)
        }
        let id = try reader.number(version == 2 ? 2 : 4)
        try reader.skip(2)
        let type = FourCC(try reader.number(4))
        guard type == "mime" else { return Item(id: id, type: type, isDeflated: false) }
        // Skips the name and the content type.
        _ = reader.text()
        _ = reader.text()
        return Item(id: id, type: type, isDeflated: bytes[reader.text()].elementsEqual("deflate".utf8))
    }

    mutating func readPrimary(_ content: Range<Int>) throws(ImageError) {
        var reader = ByteReader(bytes, content)
        let version = try reader.number(1)
        try reader.skip(3)
        primary = try reader.number(version == 0 ? 2 : 4)
    }

    /// Reads `iloc`: the byte ranges of each item.
    mutating func readLocations(_ content: Range<Int>, idat: Range<Int>?) throws(ImageError) {
        var reader = ByteReader(bytes, content)
        let version = try reader.number(1)
        try reader.skip(3)
        guard version <= 2 else { throw Self.damage("its box iloc has the unknown version \(version).") }
        let sizes = try reader.number(2)
        let (offsetSize, lengthSize, baseSize) = (sizes >> 12, sizes >> 8 & 15, sizes >> 4 & 15)
        // libheif reads the index in version 2 only, so it would misread version 1.
        let indexSize = version == 0 ? 0 : sizes & 15
        guard [offsetSize, lengthSize, baseSize, indexSize].allSatisfy({ [0, 4, 8].contains($0) }),
            version == 2 || indexSize == 0
        else { throw Self.damage("its box iloc has fields of an unknown size.") }
        let count = try reader.number(version == 2 ? 4 : 2)
        if count > HEIFBounds.items { throw Self.tooMany("\(count) items; the limit is \(HEIFBounds.items)") }
        var (located, extents): (Set<Int>, Int) = ([], 0)
        for _ in 0..<count {
            let id = try reader.number(version == 2 ? 4 : 2)
            guard located.insert(id).inserted else { throw Self.damage("item \(id) has two places.") }
            let method = version == 0 ? 0 : try reader.number(2) & 15
            try reader.skip(2)
            let base = try reader.number(baseSize)
            let parts = try reader.number(2)
            extents += parts
            if extents > HEIFBounds.extents { throw Self.tooMany("more than \(HEIFBounds.extents) extents") }
            for _ in 0..<parts {
                try reader.skip(indexSize)
                let (offset, length) = (try reader.number(offsetSize), try reader.number(lengthSize))
                try addExtent(id, method, base, offset, length, idat)
            }
        }
    }

    private mutating func addExtent(
        _ id: Int,
        _ method: Int,
        _ base: Int,
        _ offset: Int,
        _ length: Int,
        _ idat: Range<Int>?
    ) throws(ImageError) {
        // Locations of unknown items are never used.
        guard items[id] != nil else { return }
        let whole: Range<Int>
        switch method {
        case 0: whole = 0..<bytes.count
        case 1:
            guard let idat else { throw Self.damage("item \(id) lies in the box idat, which is not there.") }
            whole = idat
        default:
            items[id]?.obstacle = "its bytes are made from those of other items"
            return
        }
        let (start, isFar) = base.addingReportingOverflow(offset)
        let (end, isLong) = start.addingReportingOverflow(length)
        guard !isFar, !isLong, end <= whole.count else {
            throw Self.damage(
                "item \(id) has bytes up to \(isFar || isLong ? "beyond counting" : "\(end)"), and "
                    + (method == 0 ? "the file" : "its box idat") + " has \(whole.count): it is cut short or damaged."
            )
        }
        items[id]?.extents.append(whole.lowerBound + start..<whole.lowerBound + end)
    }

    /// Reads `ipma`: the properties of each item.
    mutating func readAssociations(_ content: Range<Int>, _ links: inout Int) throws(ImageError) {
        var reader = ByteReader(bytes, content)
        let version = try reader.number(1)
        let isWide = try reader.number(3) & 1 == 1
        let count = try reader.number(4)
        if count > HEIFBounds.items { throw Self.tooMany("properties of \(count) items") }
        for _ in 0..<count {
            let id = try reader.number(version < 1 ? 2 : 4)
            let indexes = try reader.number(1)
            links += indexes
            if links > HEIFBounds.links { throw Self.tooMany("more than \(HEIFBounds.links) links of items") }
            if items[id]?.properties.isEmpty == false { throw Self.damage("item \(id) has its properties twice.") }
            for _ in 0..<indexes {
                let index = try reader.number(isWide ? 2 : 1) & (isWide ? 0x7FFF : 0x7F)
                guard index <= properties.count else {
                    throw Self.damage("item \(id) has the property \(index), and there are \(properties.count).")
                }
                if index > 0 { items[id]?.properties.append(index - 1) }
            }
        }
    }

    /// Reads `iref`: which items are derived from others or belong to them.
    mutating func readReferences(_ content: Range<Int>, _ links: inout Int) throws(ImageError) {
        var reader = ByteReader(bytes, content)
        let version = try reader.number(1)
        try reader.skip(3)
        let width = version == 0 ? 2 : 4
        while let box = try reader.box() {
            var inner = ByteReader(bytes, box.content)
            let from = try inner.number(width)
            let count = try inner.number(2)
            // One link for the reference itself.
            links += count + 1
            if links > HEIFBounds.links { throw Self.tooMany("more than \(HEIFBounds.links) links of items") }
            if references.count == HEIFBounds.extents { throw Self.tooMany("too many references") }
            var to: [Int] = []
            for _ in 0..<count { to.append(try inner.number(width)) }
            // libheif ignores the size of the box, and would read the remaining bytes as another reference.
            guard inner.remaining == 0 else { throw Self.damage("a reference of item \(from) is damaged.") }
            references.append(Reference(type: box.type, from: from, to: to))
        }
    }

    /// Fills `inputs` and `auxiliaries`, and refuses cyclic references.
    mutating func linkReferences() throws(ImageError) {
        for reference in references {
            switch reference.type {
            case "dimg":
                guard inputs[reference.from] == nil else {
                    throw Self.damage("item \(reference.from) says twice which images it is made of.")
                }
                inputs[reference.from] = reference.to
            case "auxl":
                for image in reference.to { auxiliaries[image, default: []].append(reference.from) }
            default: break
            }
        }
        for type: FourCC in ["dimg", "auxl", "thmb", "cdsc"] { try refuseCycles(type) }
    }

    /// Topological sort: removes items whose targets have all been removed. The remaining items form a cycle.
    private func refuseCycles(_ type: FourCC) throws(ImageError) {
        var (targets, sources): ([Int: Int], [Int: [Int]]) = ([:], [:])
        for reference in references where reference.type == type {
            targets[reference.from, default: 0] += reference.to.count
            for item in reference.to { sources[item, default: []].append(reference.from) }
        }
        var free = sources.keys.filter { targets[$0, default: 0] == 0 }
        while let item = free.popLast() {
            for source in sources[item] ?? [] {
                targets[source, default: 0] -= 1
                if targets[source] == 0 { free.append(source) }
            }
        }
        if let item = targets.filter({ $0.value > 0 }).keys.min() {
            throw Self.damage("item \(item) leads back to itself by references of the type \(type).")
        }
    }
}
