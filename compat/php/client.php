<?php

declare(strict_types=1);

namespace Rsmq\Compat;

use Redis;
use RuntimeException;

/**
 * Replaces eislambey/rsmq where that package can't be installed.
 *
 * Written from PROTOCOL.md on php-redis: the same commands, the same methods, and the quirks
 * of that client in PROTOCOL.md (channel with a dollar sign, size in code points, hidden
 * messages counted by ten times the clock, fr as text).
 */
final class Client
{
    private const MAX_SECONDS = 9999999;
    private const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789';

    // KEYS: sorted set, now in ms, [new score]. With a new score it is a receive, without a pop.
    private const RECEIVE_OR_POP = <<<'LUA'
        local zset, now, score = KEYS[1], KEYS[2], KEYS[3]
        local hash = zset .. ':Q'
        local id = redis.call('ZRANGEBYSCORE', zset, '-inf', now, 'LIMIT', 0, 1)[1]
        if not id then
          return {}
        end
        redis.call('HINCRBY', hash, 'totalrecv', 1)
        local body = redis.call('HGET', hash, id)
        local count = redis.call('HINCRBY', hash, id .. ':rc', 1)
        local first = now
        if count > 1 then
          first = redis.call('HGET', hash, id .. ':fr')
        elseif score then
          redis.call('HSET', hash, id .. ':fr', now)
        end
        if score then
          redis.call('ZADD', zset, score, id)
        else
          redis.call('ZREM', zset, id)
          redis.call('HDEL', hash, id, id .. ':rc', id .. ':fr')
        end
        return {id, body, count, first}
        LUA;

    // KEYS: sorted set, id, score.
    private const HIDE = <<<'LUA'
        if not redis.call('ZSCORE', KEYS[1], KEYS[2]) then
          return 0
        end
        redis.call('ZADD', KEYS[1], KEYS[3], KEYS[2])
        return 1
        LUA;

    public function __construct(
        private Redis $redis,
        private string $ns = 'rsmq',
        private bool $realtime = false,
    ) {
    }

    public function createQueue(string $name, int $vt = 30, int $delay = 0, int $maxSize = 65536): bool
    {
        $this->checkName($name);
        $this->checkSeconds('Visibility time', $vt);
        $this->checkSeconds('Delay', $delay);
        $this->checkMaxSize($maxSize);
        $created = (string) $this->redis->time()[0];
        $fields = [
            'vt' => $vt, 'delay' => $delay, 'maxsize' => $maxSize, 'created' => $created, 'modified' => $created,
        ];
        $transaction = $this->redis->multi();
        foreach ($fields as $field => $value) {
            $transaction->hSetNx($this->hash($name), $field, (string) $value);
        }
        if (!$transaction->exec()[0]) {
            throw new RuntimeException('Queue already exists.');
        }
        return (bool) $this->redis->sAdd("{$this->ns}:QUEUES", $name);
    }

    /** @return list<string> */
    public function listQueues(): array
    {
        return $this->redis->sMembers("{$this->ns}:QUEUES");
    }

    public function deleteQueue(string $name): void
    {
        $this->checkName($name);
        $replies = $this->redis->multi()
            ->del($this->hash($name), $this->zset($name))
            ->sRem("{$this->ns}:QUEUES", $name)
            ->exec();
        if (!$replies[0]) {
            throw new RuntimeException('Queue not found.');
        }
    }

    /** @return array<string, int> */
    public function getQueueAttributes(string $queue): array
    {
        $this->checkName($queue);
        $threshold = $this->redis->time()[0] . '0000';
        $fields = ['vt', 'delay', 'maxsize', 'totalrecv', 'totalsent', 'created', 'modified'];
        [$stored, $messages, $hidden] = $this->redis->multi()
            ->hMGet($this->hash($queue), $fields)
            ->zCard($this->zset($queue))
            ->zCount($this->zset($queue), $threshold, '+inf')
            ->exec();
        if ($stored['vt'] === false) {
            throw new RuntimeException('Queue not found.');
        }
        return array_map('intval', $stored) + ['msgs' => $messages, 'hiddenmsgs' => $hidden];
    }

    /** @return array<string, int> */
    public function setQueueAttributes(
        string $queue,
        ?int $vt = null,
        ?int $delay = null,
        ?int $maxSize = null,
    ): array {
        if ($vt !== null) {
            $this->checkSeconds('Visibility time', $vt);
        }
        if ($delay !== null) {
            $this->checkSeconds('Delay', $delay);
        }
        if ($maxSize !== null) {
            $this->checkMaxSize($maxSize);
        }
        $this->attributesAndTime($queue);
        $given = ['modified' => $this->redis->time()[0], 'vt' => $vt, 'delay' => $delay, 'maxsize' => $maxSize];
        $transaction = $this->redis->multi();
        foreach (array_filter($given, fn ($value) => $value !== null) as $field => $value) {
            $transaction->hSet($this->hash($queue), $field, (string) $value);
        }
        $transaction->exec();
        return $this->getQueueAttributes($queue);
    }

    /** @param array{delay?: int} $options */
    public function sendMessage(string $queue, string $message, array $options = []): string
    {
        [$attributes, $seconds, $microseconds] = $this->attributesAndTime($queue);
        $limit = (int) $attributes['maxsize'];
        if ($limit !== -1 && mb_strlen($message) > $limit) {
            throw new RuntimeException('Message too long');
        }
        $digits = $seconds . sprintf('%06d', $microseconds);
        $id = base_convert($digits, 10, 36);
        for ($i = 0; $i < 22; $i++) {
            $id .= self::ALPHABET[random_int(0, 61)];
        }
        $score = intdiv((int) $digits, 1000) + ($options['delay'] ?? (int) $attributes['delay']) * 1000;
        $transaction = $this->redis->multi()
            ->zAdd($this->zset($queue), $score, $id)
            ->hSet($this->hash($queue), $id, $message)
            ->hIncrBy($this->hash($queue), 'totalsent', 1);
        if ($this->realtime) {
            $transaction->zCard($this->zset($queue));
        }
        $replies = $transaction->exec();
        if ($this->realtime) {
            $this->redis->publish("{$this->ns}:rt:\${$queue}", (string) $replies[3]);
        }
        return $id;
    }

    /** @param array{vt?: int} $options */
    public function receiveMessage(string $queue, array $options = []): array
    {
        [$attributes, $seconds, $microseconds] = $this->attributesAndTime($queue);
        $now = $seconds * 1000 + intdiv($microseconds, 1000);
        $until = $now + ($options['vt'] ?? (int) $attributes['vt']) * 1000;
        return $this->message($this->redis->eval(self::RECEIVE_OR_POP, [$this->zset($queue), $now, $until], 3));
    }

    public function popMessage(string $queue): array
    {
        [, $seconds, $microseconds] = $this->attributesAndTime($queue);
        $now = $seconds * 1000 + intdiv($microseconds, 1000);
        return $this->message($this->redis->eval(self::RECEIVE_OR_POP, [$this->zset($queue), $now], 2));
    }

    public function deleteMessage(string $queue, string $id): bool
    {
        $this->checkName($queue);
        $this->checkId($id);
        [$removed, $fields] = $this->redis->multi()
            ->zRem($this->zset($queue), $id)
            ->hDel($this->hash($queue), $id, "{$id}:rc", "{$id}:fr")
            ->exec();
        return $removed === 1 && $fields > 0;
    }

    public function changeMessageVisibility(string $queue, string $id, int $vt): bool
    {
        $this->checkId($id);
        $this->checkSeconds('Visibility time', $vt);
        [, $seconds, $microseconds] = $this->attributesAndTime($queue);
        $until = $seconds * 1000 + intdiv($microseconds, 1000) + $vt * 1000;
        return (bool) $this->redis->eval(self::HIDE, [$this->zset($queue), $id, $until], 3);
    }

    private function zset(string $queue): string
    {
        return "{$this->ns}:{$queue}";
    }

    private function hash(string $queue): string
    {
        return "{$this->ns}:{$queue}:Q";
    }

    /** @return array{array<string, string>, int, int} the attributes, seconds and microseconds */
    private function attributesAndTime(string $queue): array
    {
        $this->checkName($queue);
        [$attributes, $time] = $this->redis->multi()
            ->hMGet($this->hash($queue), ['vt', 'delay', 'maxsize'])
            ->time()
            ->exec();
        if ($attributes['vt'] === false) {
            throw new RuntimeException('Queue not found.');
        }
        return [$attributes, (int) $time[0], (int) $time[1]];
    }

    private function message(mixed $reply): array
    {
        if (!$reply) {
            return [];
        }
        [$id, $body, $count, $first] = $reply;
        $sent = (int) base_convert(substr($id, 0, 10), 36, 10) / 1000;
        return ['id' => $id, 'message' => $body, 'rc' => $count, 'fr' => $first, 'sent' => $sent];
    }

    private function checkName(string $name): void
    {
        if (!preg_match('/^[a-zA-Z0-9_-]{1,160}$/', $name)) {
            throw new RuntimeException('Invalid queue name');
        }
    }

    private function checkId(string $id): void
    {
        if (!preg_match('/^[a-zA-Z0-9:]{32}$/', $id)) {
            throw new RuntimeException('Invalid message id');
        }
    }

    private function checkSeconds(string $label, int $seconds): void
    {
        if ($seconds < 0 || $seconds > self::MAX_SECONDS) {
            throw new RuntimeException("{$label} must be between 0 and " . self::MAX_SECONDS);
        }
    }

    private function checkMaxSize(int $size): void
    {
        if ($size < 1024 || $size > 65536) {
            throw new RuntimeException('Maximum message size must be between 1024 and 65536');
        }
    }
}
